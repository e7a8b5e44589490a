"""What is seen while runs are trained and measured."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ibnn.lab.progress import Steps
from ibnn.lab.runner import Display
from ibnn.lab.runner.ensemble.display import EnsembleDisplay
from ibnn.lab.runner.outcome import Emit


@contextmanager
def progress(engine: str) -> Iterator[Emit]:
    """A display that suits the engine."""
    with EnsembleDisplay() if engine == "ensemble" else Display() as display:
        yield display


@contextmanager
def measuring() -> Iterator[Callable[[int, int], None]]:
    """How many finished runs have been measured; quick ones leave no trace."""
    with Steps() as steps:

        def tell(done: int, total: int) -> None:
            steps(done, total, f"measured {done} of {total} runs")

        yield tell
