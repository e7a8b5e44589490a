"""What an engine is given: where files are, how many runs at a time, how often to retry."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibnn.lab.training.device import device_of_worker

ENGINES = ("inline", "processes", "ensemble", "ray", "slurm")


class RunnerError(Exception):
    """An engine that cannot be used here; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class RunnerOptions:
    """The same for every engine; each uses what concerns it.

    Args:
        root: run folders are `<root>/runs/<identity>`.
        data_root: where datasets are kept.
        workers: runs trained at a time.
        threads: of each worker.
        retries: of a run whose worker was lost.
        address: of a Ray cluster, or the partition of a Slurm cluster.
        checkpoint_seconds: the least time between two checkpoints of a run.
        device: where networks are trained; several are given to the workers in turn.
        log: names of the listeners of every run.
    """

    root: Path
    data_root: Path | None = None
    workers: int = 1
    threads: int = 1
    retries: int = 3
    address: str | None = None
    checkpoint_seconds: float = 1.0
    device: str = "cpu"
    log: tuple[str, ...] = ()

    def attempt(self, worker: int | None = 0) -> dict[str, Any]:
        """What a worker process is told, as JSON takes it; accelerators are taken in turn.

        A worker of another machine has no number here: it chooses its device there.
        """
        return {
            "root": str(self.root),
            "data_root": None if self.data_root is None else str(self.data_root),
            "checkpoint_seconds": self.checkpoint_seconds,
            "device": self.device if worker is None else device_of_worker(self.device, worker),
            "log": list(self.log),
        }

    def environment(self) -> dict[str, str]:
        """Threads are set before torch starts: changing them later is not safe in every build."""
        return {
            "OMP_NUM_THREADS": str(self.threads),
            "MKL_NUM_THREADS": str(self.threads),
            "OMP_WAIT_POLICY": "PASSIVE",  # waiting threads must not take cores from neighbors
        }


def runs_at_once(engine: str, workers: int | None, address: str | None, runs: int) -> int:
    """How many of so many runs an engine trains at a time.

    Raises:
        RunnerError: the engine does not exist, or cannot do what was asked.
    """
    if engine not in ENGINES:
        raise RunnerError(f"engine is {engine!r}, expected one of {', '.join(ENGINES)}")
    if workers is not None and workers < 1:
        raise RunnerError(f"workers is {workers}, expected at least 1")
    if engine == "inline" and (workers or 1) > 1:
        raise RunnerError(f"workers is {workers}, but engine inline trains one run at a time")
    if address is not None and engine not in ("ray", "slurm"):
        raise RunnerError(f"address is {address!r}, but only engines ray and slurm join a cluster")
    if engine == "inline":
        return 1
    return max(1, runs if engine == "ensemble" else min(workers or cores(), runs))


def python_path() -> str:
    """For processes started elsewhere: this ibnn first, then what this process has."""
    source = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))


def cores() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
