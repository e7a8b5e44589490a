"""What an engine is given: where files are, how many runs at a time, how often to retry."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


class EngineError(Exception):
    """An engine that cannot be used here; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The same for every engine; each uses what concerns it."""

    root: Path
    data_root: Path | None = None
    workers: int = 1
    threads: int = 1  # of each worker
    retries: int = 3  # of a run whose worker was lost
    address: str | None = None  # of a Ray cluster
    checkpoint_seconds: float = 1.0  # the least time between two checkpoints of a run

    def environment(self) -> dict[str, str]:
        """Threads are set before torch starts: changing them later is not safe in every build."""
        return {
            "OMP_NUM_THREADS": str(self.threads),
            "MKL_NUM_THREADS": str(self.threads),
            "OMP_WAIT_POLICY": "PASSIVE",  # waiting threads must not take cores from neighbours
        }


def cores() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
