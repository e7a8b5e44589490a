"""From an experiment to its finished runs: stage by stage, with whichever engine."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ibnn.lab import data, files
from ibnn.lab.files import StrPath
from ibnn.lab.runner.finished import Run
from ibnn.lab.runner.outcome import Emit, Outcome
from ibnn.lab.runner.run import run_all
from ibnn.lab.training import Result, RunConfig, RunFolder, with_checksum


class Experiment(Protocol):
    """What the runner asks of an experiment; the settings are the experiment's own business."""

    name: ClassVar[str]
    engine: ClassVar[str]
    measure_version: ClassVar[int]
    measured_as: ClassVar[str | None]
    renamed: ClassVar[Mapping[str, str]]

    def check(self, settings: Any, /) -> None: ...
    def dataset(self, settings: Any, /) -> str: ...
    def plan(self, settings: Any, results: Mapping[str, Result], /) -> list[RunConfig]: ...
    def measure(self, run: Run, /) -> dict[str, Any]: ...


def execute(
    experiment: Experiment,
    settings: Any,
    root: StrPath,
    *,
    engine: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    data_root: StrPath | None = None,
    device: str = "cpu",
    log: tuple[str, ...] = (),
    on_event: Emit | None = None,
) -> Outcome:
    """Train whatever the experiment still needs; failed runs leave the others alone.

    Args:
        settings: what the user chose, as the experiment takes it.
        engine: the experiment's own when absent.
        workers, address, data_root, device, log, on_event: see `run_all`.
    """
    experiment.check(settings)
    data.load(experiment.dataset(settings), data_root)  # missing data is told before any run
    total = Outcome()
    while True:
        known = _planned(experiment, settings, root)
        tried = {*total.done, *total.skipped, *total.failed}
        new = [config for config in known if config.identity() not in tried]
        if not new:
            return total
        outcome = run_all(
            new,
            root,
            engine or experiment.engine,
            workers,
            address,
            on_event,
            data_root=data_root,
            device=device,
            log=log,
        )
        total.done += outcome.done
        total.skipped += outcome.skipped
        total.failed |= outcome.failed


def plan(
    experiment: Experiment, settings: Any, root: StrPath
) -> tuple[list[RunConfig], list[RunConfig]]:
    """The runs known so far: (finished, to train)."""
    known = _planned(experiment, settings, root)
    unique = {config.identity(): config for config in known}.values()
    finished = [c for c in unique if RunFolder(root, c.identity()).status() == "finished"]
    return finished, [c for c in unique if c not in finished]


def results(experiment: Experiment, settings: Any, root: StrPath) -> dict[str, Result]:
    """The results on disk of every run the experiment needs, later stages included.

    By the identities of its plan: those its later stages ask for.
    """
    found: dict[str, Result] = {}
    while True:
        known = {config.identity(): config for config in experiment.plan(settings, found)}
        folders = {
            name: RunFolder(root, with_checksum(known[name]).identity())
            for name in sorted(known.keys() - found.keys())
        }
        finished = {name: f.result() for name, f in folders.items() if f.status() == "finished"}
        if not finished:
            return found
        found |= finished


def collect(
    experiment: Experiment,
    settings: Any,
    root: StrPath,
    data_root: StrPath | None = None,
    on_measure: Callable[[int, int], None] | None = None,
) -> tuple[list[Run], list[RunConfig]]:
    """Every finished run with what is measured on it, and the configs of those missing.

    `on_measure` is called with (runs measured so far, of how many).
    """
    finished, missing = plan(experiment, settings, root)
    runs: list[Run] = []
    for number, config in enumerate(finished, 1):
        folder = RunFolder(root, config.identity())
        runs.append(_measured(experiment, Run(config, folder.result(), folder, {}, data_root)))
        if on_measure:
            on_measure(number, len(finished))
    return runs, missing


def unmeasured(experiment: Experiment, settings: Any, root: StrPath) -> list[RunConfig]:
    """The runs known so far, trained or not, on which nothing has been measured."""
    known = _planned(experiment, settings, root)
    folders = [(config, RunFolder(root, config.identity())) for config in known]
    return [
        config
        for config, folder in folders
        if not any(file.exists() for file in _files(experiment, folder))
    ]


def _planned(experiment: Experiment, settings: Any, root: StrPath) -> list[RunConfig]:
    """The runs known so far, each as `run_all` names it: by the contents of a user's own file."""
    known = experiment.plan(settings, results(experiment, settings, root))
    return [with_checksum(config) for config in known]


def _files(experiment: Experiment, folder: RunFolder) -> list[Path]:
    """Where its measurements may be: those shared with another experiment, then its own.

    An experiment that shares them now may have kept its own before.
    """
    names = dict.fromkeys((experiment.measured_as or experiment.name, experiment.name))
    return [Path(folder.path) / f"measured-{name}.json" for name in names]


def _measured(experiment: Experiment, run: Run) -> Run:
    """The run with its measurements, made once and kept beside its result."""
    known = _files(experiment, run.folder)
    values: Mapping[str, Any] | None = None
    for file in reversed(known):
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(file.read_text())
            values = stored["values"] if stored["version"] == experiment.measure_version else values
    if values is None:
        values = experiment.measure(run)
        if values:
            files.write_json(known[0], {"version": experiment.measure_version, "values": values})
    named = {experiment.renamed.get(name, name): value for name, value in values.items()}
    return replace(run, measured=named)
