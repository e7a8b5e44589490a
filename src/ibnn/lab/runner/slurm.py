"""Engine `slurm`: every run a job of a Slurm cluster, through submitit.

The cluster's machines see the same folders as this one. A job that is lost (its time was up, its
machine went away) is submitted again, and its run goes on from its checkpoint. `address` names the
partition; `local` runs the jobs as processes of this machine, to try it out.
"""

import importlib
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ibnn.engine.native import loader
from ibnn.lab.plugins import load_plugins
from ibnn.lab.runner.attempt import Attempts, record
from ibnn.lab.runner.options import RunnerError, RunnerOptions, python_path
from ibnn.lab.runner.outcome import Emit, Event
from ibnn.lab.training import Metrics, RunConfig, RunError, RunFolder

POLL_SECONDS = 2.0
HOURS = 24  # of a job; a run that needs more goes on in the next one
LOCAL = "local"


def run(configs: Sequence[RunConfig], options: RunnerOptions, emit: Emit) -> None:
    """Train all; Slurm decides where and when, `options.workers` at a time."""
    executor = _executor(options)
    loader.available()  # compiled once here, not by every job at the same time
    waiting, tries = list(configs), dict.fromkeys((c.identity() for c in configs), 0)
    running: dict[str, tuple[RunConfig, Any]] = {}
    told = {config.identity(): _lines(options, config) for config in configs}
    try:
        while waiting or running:
            while waiting and len(running) < options.workers:
                config = waiting.pop(0)
                job = executor.submit(_job, options.attempt(None), config.to_json())
                running[config.identity()] = config, job
                emit(Event(kind="started", config=config))
            time.sleep(POLL_SECONDS if options.address != LOCAL else 0.2)
            for identity, (config, job) in list(running.items()):
                ended = job.done()  # asked first: what a job wrote before its end is told
                told[identity] = _tell_new(options, config, told[identity], emit)
                if not ended:
                    continue
                del running[identity]
                text, lost = _ended(job)
                if lost and tries[identity] < options.retries:
                    tries[identity] += 1
                    emit(Event(kind="lost", config=config, text=lost))
                    waiting.insert(0, config)
                    continue
                if lost:
                    text = record(options.root, config, RunnerError(f"lost its job: {lost}"))
                emit(Event(kind="failed" if text else "done", config=config, text=text))
    finally:
        for _, job in running.values():
            with suppress(Exception):
                job.cancel()


def _executor(options: RunnerOptions) -> Any:
    try:
        submitit: Any = importlib.import_module("submitit")
    except ImportError:
        raise RunnerError("engine 'slurm' needs submitit: pip install 'ibnn[slurm]'") from None
    cluster = LOCAL if options.address == LOCAL else "slurm"
    try:
        executor = submitit.AutoExecutor(folder=str(Path(options.root) / "slurm"), cluster=cluster)
    except RuntimeError as error:
        raise RunnerError(
            f"no Slurm here ({' '.join(str(error).split())}); address 'local' runs the jobs on "
            "this machine"
        ) from None
    executor.update_parameters(name="ibnn", timeout_min=60 * HOURS)
    if cluster == "slurm":
        executor.update_parameters(
            cpus_per_task=options.threads,
            gpus_per_node=0 if options.device in ("cpu", "mps") else 1,
            slurm_setup=[f"export {name}={value}" for name, value in _environment(options).items()],
            **({"slurm_partition": options.address} if options.address else {}),
        )
    return executor


def _environment(options: RunnerOptions) -> Mapping[str, str]:
    """What a job must find set before its Python starts."""
    plugins = os.environ.get("IBNN_PLUGINS", "")
    return {**options.environment(), "PYTHONPATH": python_path(), "IBNN_PLUGINS": plugins}


def _job(attempt: dict[str, Any], config_json: str) -> str:
    """On the cluster: train one run; the empty text means finished, otherwise why not."""
    load_plugins()
    return Attempts(**attempt)(RunConfig.from_json(config_json), _nobody)


def _nobody(metrics: Metrics) -> None:
    """Whoever submitted the job reads the run's own metrics."""


def _ended(job: Any) -> tuple[str, str]:
    """What the job said, or why it was lost."""
    try:
        return str(job.result()), ""
    except Exception as error:
        return "", f"{type(error).__name__}, state {job.state}"


def _lines(options: RunnerOptions, config: RunConfig) -> int:
    """How many validations the run has had so far."""
    with suppress(RunError):
        return len(RunFolder(options.root, config.identity()).metrics())
    return 0


def _tell_new(options: RunnerOptions, config: RunConfig, before: int, emit: Emit) -> int:
    """Pass on the validations that came since; fewer than before: it was resumed."""
    found: list[Metrics] = []
    with suppress(RunError):
        found = RunFolder(options.root, config.identity()).metrics()
    for metrics in found[before:]:
        emit(Event(kind="epoch", config=config, metrics=metrics))
    return len(found)
