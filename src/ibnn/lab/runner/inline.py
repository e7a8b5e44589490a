"""Engine `inline`: one run after the other in this process."""

import os
from collections.abc import Sequence

from ibnn.lab.runner.attempt import Attempts
from ibnn.lab.runner.options import RunnerOptions
from ibnn.lab.runner.outcome import Emit, Event
from ibnn.lab.training import Metrics, RunConfig


def run(configs: Sequence[RunConfig], options: RunnerOptions, emit: Emit) -> None:
    """Train all; a run that fails does not stop the others."""
    attempt = Attempts(**options.attempt())
    for config in configs:

        def on_epoch(metrics: Metrics, config: RunConfig = config) -> None:
            emit(Event(kind="epoch", config=config, metrics=metrics))

        emit(Event(kind="started", config=config, pid=os.getpid()))
        text = attempt(config, on_epoch)
        emit(Event(kind="failed" if text else "done", config=config, text=text))
