"""`run_all`: train the runs that are not finished, with one engine, and say how they ended."""

import importlib
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ibnn.lab.files import StrPath
from ibnn.lab.runner.options import RunnerError, RunnerOptions, cores, runs_at_once
from ibnn.lab.runner.outcome import Emit, Event, Outcome, Stopped
from ibnn.lab.training import (
    CheckpointError,
    RunConfig,
    RunFolder,
    choose_device,
    make_listeners,
    with_checksum,
)

_OLD_NAMES = {"together": "ensemble"}  # of 0.1


def run_all(
    configs: Iterable[RunConfig],
    root: StrPath,
    engine: str = "inline",
    workers: int | None = None,
    address: str | None = None,
    on_event: Emit | None = None,
    *,
    data_root: StrPath | None = None,
    threads: int | None = None,
    retries: int = 3,
    checkpoint_seconds: float = 1.0,
    device: str = "cpu",
    log: Sequence[str] = (),
) -> Outcome:
    """Train every run once; those with a result are skipped, a failed one leaves the rest alone.

    Args:
        root: run folders are `<root>/runs/<identity>`.
        engine: `inline` (here, one after the other), `processes`, `ensemble` (many tiny
            perceptrons as one), `ray` or `slurm`.
        workers: runs trained at a time (processes, ray, slurm); by default one per core.
        address: of a Ray cluster to join, without it a local one is started and stopped; or the
            partition of a Slurm cluster, `local` for jobs on this machine.
        on_event: told about everything that happens, e.g. a `Display`.
        threads: of each worker; by default the cores divided among the workers.
        retries: how often a run whose worker was killed is taken up again.
        data_root: where datasets are kept.
        checkpoint_seconds: see `train`.
        device: see `train`; with `auto` or `cuda` the accelerators are given to workers in turn.
        log: names of the listeners of each run, see `register_listener`.

    Raises:
        RunnerError: the engine does not exist or cannot start.
        Stopped: Ctrl-C; workers have ended and the same call resumes.
    """
    if engine in _OLD_NAMES:
        new = _OLD_NAMES[engine]
        text = f"engine {engine!r} is called {new!r} now"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        engine = new
    runs_at_once(engine, workers, address, 1)  # refuses what cannot be, before any run
    outcome = Outcome()
    planned: list[RunConfig] = []
    tell = on_event or (lambda event: None)
    chosen = [with_checksum(config) for config in configs]
    for config in {config.identity(): config for config in chosen}.values():
        folder = RunFolder(root, config.identity())
        if folder.status() == "finished":
            outcome.skipped.append(config.identity())
            tell(Event(kind="skipped", config=config))
        else:
            planned.append(config)
    at_once = runs_at_once(engine, workers, address, len(planned))
    make_listeners(log)  # an unknown or missing one is an error before any run, as is a device
    _check_device(device, engine, address)
    options = RunnerOptions(
        root=Path(root),
        data_root=None if data_root is None else Path(data_root),
        workers=at_once,
        threads=threads or max(1, cores() // at_once),
        retries=retries,
        address=address,
        checkpoint_seconds=checkpoint_seconds,
        device=device,
        log=tuple(log),
    )

    def emit(event: Event) -> None:
        assert event.config is not None
        identity = event.config.identity()
        if event.kind == "done":
            outcome.done.append(identity)
            with suppress(CheckpointError):
                event = replace(event, result=RunFolder(root, identity).result())
        elif event.kind == "failed":
            outcome.failed[identity] = event.text
        tell(event)

    tell(Event(kind="planned", planned=tuple(planned), workers=at_once))
    if planned:
        run = importlib.import_module(f"ibnn.lab.runner.{engine}").run
        try:
            run(planned, options, emit)
        except KeyboardInterrupt:
            left = len(planned) - len(outcome.done) - len(outcome.failed)
            raise Stopped(outcome, left) from None
    return outcome


def _check_device(device: str, engine: str, address: str | None) -> None:
    """Refuse what cannot be, before any run; other machines may have other devices than this."""
    on_cluster = engine == "ray" or (engine == "slurm" and address != "local")
    kind, colon, _ = device.partition(":")
    if on_cluster and colon and kind != "cpu":
        raise RunnerError(
            f"device is {device!r}, but engine {engine!r} gives every run the accelerator that is "
            f"free: expected {kind!r}"
        )
    if not on_cluster or (engine == "ray" and address is None):
        choose_device(device)
