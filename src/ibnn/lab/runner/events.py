"""What happens to runs while they are trained, as told to displays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ibnn.lab.training import Metrics, Result, RunConfig

Kind = Literal["planned", "skipped", "started", "epoch", "lost", "done", "failed"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened to one run (to all of them for "planned", which comes first)."""

    kind: Kind
    config: RunConfig | None = None
    metrics: Metrics | None = None  # "epoch"
    result: Result | None = None  # "done" and "skipped"
    text: str = ""  # "lost": how the worker ended; "failed": one line, then the traceback
    pid: int | None = None  # "started"
    planned: tuple[RunConfig, ...] = ()  # "planned": what is left to do
    workers: int = 1  # "planned": how many are trained at a time


Emit = Callable[[Event], None]
