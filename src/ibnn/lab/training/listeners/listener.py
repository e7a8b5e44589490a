"""What a listener of a run is: a few callbacks, each of which may be left out."""

from collections.abc import Callable
from pathlib import Path

from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.result import Metrics, Result


class Listener:
    """Callbacks of one run while it is trained. An exception ends the run, which can be resumed.

    >>> class Loud(Listener):
    ...     def on_epoch(self, metrics):
    ...         print(f"{metrics.stage} {metrics.epoch}: {metrics.accuracy:.0%}")
    """

    def on_start(self, config: RunConfig, folder: Path, epochs_done: int) -> None:
        """Training begins, or resumes after `epochs_done` epochs, warm-up included."""

    def on_epoch(self, metrics: Metrics) -> None:
        """An epoch was trained and validated; its checkpoint, if one was due, is on the disk."""

    def on_finish(self, result: Result) -> None:
        """The result is on the disk. Not called for a run that was stopped or failed."""

    def close(self) -> None:
        """The last call, however the training ended."""


class CallOnEpoch(Listener):
    """A function as a listener."""

    def __init__(self, call: Callable[[Metrics], None]):
        self._call = call

    def on_epoch(self, metrics: Metrics) -> None:
        self._call(metrics)
