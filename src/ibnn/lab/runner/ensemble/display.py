"""What is seen of an ensemble: all its networks are at the same epoch, one line tells all."""

import time

from rich.console import Console

from ibnn.lab.progress import Bars, duration
from ibnn.lab.runner.outcome import Event


class EnsembleDisplay(Bars):
    """Pass it to `run_all` as `on_event`, with engine `ensemble`."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._task = self._bars.add_task("", total=1, note="")
        self._networks = 0
        self._first: tuple[float, int] | None = None
        self._told: tuple[str, int] | None = None

    def __call__(self, event: Event) -> None:
        if event.kind == "planned" and event.planned:
            self._networks = len(event.planned)
            self._first = self._told = None
            self.say(f"{self._networks} networks to train as one ensemble")
        elif event.kind == "failed" and event.config is not None:
            self.say(f"{event.config.title()}: FAILED, {event.text.partition(chr(10))[0]}")
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
        self.say_now_and_then(f"{name}: {note}")
