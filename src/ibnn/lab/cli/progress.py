"""What is seen while runs are trained: the runner's display, or one bar for an ensemble."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from ibnn.lab.runner import Display, Event, duration
from ibnn.lab.runner.display import Bars
from ibnn.lab.runner.events import Emit

PLAIN_SECONDS = 10.0


@contextmanager
def progress(engine: str) -> Iterator[Emit]:
    """A display that suits the engine."""
    with EnsembleDisplay() if engine == "ensemble" else Display() as display:
        yield display


@contextmanager
def measuring() -> Iterator[Callable[[int, int], None]]:
    """A line that says how many finished runs have been measured; quick ones leave no trace."""
    console = Console(stderr=True)
    spoke = time.monotonic()
    with console.status("") as status:

        def tell(done: int, total: int) -> None:
            nonlocal spoke
            text = f"measured {done} of {total} runs"
            status.update(text)
            if not console.is_terminal and time.monotonic() - spoke >= PLAIN_SECONDS:
                spoke = time.monotonic()
                console.print(text, highlight=False)

        yield tell


class EnsembleDisplay(Bars):
    """All networks of an ensemble are at the same epoch: one line tells everything."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console, 24)
        self._task = self._bars.add_task("", total=1, note="")
        self._networks = 0
        self._first: tuple[float, int] | None = None
        self._told: tuple[str, int] | None = None
        self._spoke = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if event.kind == "planned" and event.planned:
            self._networks = len(event.planned)
            self._first = self._told = None
            self._say(f"{self._networks} networks to train as one ensemble")
        elif event.kind == "failed" and event.config is not None:
            self._say(f"{event.config.title()}: FAILED, {event.text.partition(chr(10))[0]}")
        elif event.kind == "epoch" and event.config is not None and event.metrics is not None:
            line = event.metrics
            if self._told == (line.stage, line.epoch):
                return
            self._told = (line.stage, line.epoch)
            done = line.epoch + (event.config.warmup_epochs if line.stage == "training" else 0)
            self._update(done, event.config.warmup_epochs + event.config.epochs)

    def _update(self, done: int, total: int) -> None:
        now = time.monotonic()
        first, begun = self._first or (now, done)
        self._first = (first, begun)
        left = ""
        if done > begun:
            left = f", {duration((now - first) / (done - begun) * (total - done))} left"
        note = f"epoch {done}/{total}{left}"
        name = f"{self._networks} networks"
        self._bars.update(self._task, description=name, completed=done, total=total, note=note)
        if not self._live and now - self._spoke >= PLAIN_SECONDS:
            self._say(f"{name}: {note}")
