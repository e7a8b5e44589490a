"""One picture of all runs: bars with the time left on a terminal, plain lines elsewhere."""

from rich.console import Console
from rich.progress import TaskID

from ibnn.lab.progress import Bars, duration
from ibnn.lab.runner.outcome import Event, runs
from ibnn.lab.runner.timeleft import TimeLeft
from ibnn.lab.training import RunConfig
from ibnn.lab.training.epochs import epochs_done, total_epochs


class Display(Bars):
    """Pass it to `run_all` as `on_event`.

    >>> with Display() as display:  # doctest: +SKIP
    ...     run_all(configs, "out", on_event=display)
    """

    def __init__(self, console: Console | None = None):
        super().__init__(console, 20)
        self._tasks: dict[str, TaskID] = {}
        self._all: TaskID | None = None
        self._time = TimeLeft(())
        self._total = 0
        self._ended = 0

    def __call__(self, event: Event) -> None:
        if event.kind == "planned":
            self._plan(event)
        elif event.config is not None:
            getattr(self, f"_{event.kind}")(event, event.config)
            self._update_all()

    def _plan(self, event: Event) -> None:
        self._time = TimeLeft(event.planned, event.workers)
        self._total = len(event.planned)
        self._ended = 0
        if self._all is not None:
            self._bars.remove_task(self._all)
        self._all = self._bars.add_task("all runs", total=self._total or 1, note="")
        if self._total:
            self.say(f"{runs(self._total)} to train, {event.workers} at a time")

    def _skipped(self, event: Event, config: RunConfig) -> None:
        """Finished before: nothing to show."""

    def _started(self, event: Event, config: RunConfig) -> None:
        self._remove(config)
        self._tasks[config.identity()] = self._bars.add_task(
            f"  {config.title()}", total=total_epochs(config), note="starting"
        )

    def _epoch(self, event: Event, config: RunConfig) -> None:
        assert event.metrics is not None
        self._time.epoch(config, event.metrics)
        task = self._tasks.get(config.identity())
        if task is not None:
            done = epochs_done(config, event.metrics)
            self._bars.update(task, completed=done, note=str(event.metrics))
        self.say_now_and_then(f"{config.title()}: {event.metrics}{self._left()}")

    def _lost(self, event: Event, config: RunConfig) -> None:
        self.say(f"{config.title()}: worker {event.text}, resumes from its last checkpoint")

    def _done(self, event: Event, config: RunConfig) -> None:
        self._end(config)
        best = ""
        if event.result is not None:
            best = f": best {event.result.best} in epoch {event.result.best_epoch}"
        self.say(f"[{self._ended}/{self._total}] {config.title()}{best}{self._left()}")

    def _failed(self, event: Event, config: RunConfig) -> None:
        self._end(config)
        reason = event.text.partition("\n")[0]
        self.say(f"[{self._ended}/{self._total}] {config.title()}: FAILED, {reason}")

    def _end(self, config: RunConfig) -> None:
        self._ended += 1
        self._time.ended(config)
        self._remove(config)

    def _remove(self, config: RunConfig) -> None:
        task = self._tasks.pop(config.identity(), None)
        if task is not None:
            self._bars.remove_task(task)

    def _update_all(self) -> None:
        if self._all is not None:
            note = f"{self._ended}/{self._total}{self._left()}"
            self._bars.update(self._all, completed=self._ended, note=note)

    def _left(self) -> str:
        seconds = self._time.seconds()
        return f", {duration(seconds)} left" if seconds else ""
