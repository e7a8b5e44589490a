"""What is seen of an ensemble: all its networks are at the same epoch, one line tells all."""

from rich.console import Console

from ibnn.lab.progress import OneBar
from ibnn.lab.runner.outcome import Event
from ibnn.lab.training.epochs import epochs_done, total_epochs


class EnsembleDisplay(OneBar):
    """Pass it to `run_all` as `on_event`, with engine `ensemble`."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._name = ""
        self._told = 0  # epochs

    def __call__(self, event: Event) -> None:
        if event.kind == "planned" and event.planned:
            self._name = f"{len(event.planned)} networks"
            self._first, self._told = None, 0
            self.say(f"{self._name} to train as one ensemble")
        elif event.kind == "failed" and event.config is not None:
            self.say(f"{event.config.title()}: FAILED, {event.text.partition(chr(10))[0]}")
        elif event.kind == "epoch" and event.config is not None and event.metrics is not None:
            done, total = epochs_done(event.config, event.metrics), total_epochs(event.config)
            if done != self._told:
                self._told = done
                self.advance(done, total, self._name, f"epoch {done}/{total}")
