"""What happens to runs while they are trained, as told to displays; and how they ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass
class Outcome:
    """Identities of the runs, by how they ended."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # one line, then the traceback
    skipped: list[str] = field(default_factory=list)  # finished before

    @property
    def ok(self) -> bool:
        """Whether every run has a result."""
        return not self.failed

    def __str__(self) -> str:
        parts = [f"{runs(len(self.done))} trained"]
        parts += [f"{len(self.skipped)} finished before"] if self.skipped else []
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        return ", ".join(parts)


class Stopped(KeyboardInterrupt):
    """Ctrl-C while runs were trained; every worker has ended, every checkpoint is whole."""

    def __init__(self, outcome: Outcome, left: int):
        super().__init__(
            f"stopped with {runs(left)} to go ({outcome}); "
            "the same command resumes from the last checkpoints"
        )
        self.outcome = outcome


def runs(number: int) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} run" if number == 1 else f"{number} runs"
