"""From an experiment to its finished runs: stage by stage, with whichever engine."""

from collections.abc import Callable
from typing import Any

from ibnn.lab import data
from ibnn.lab.files import StrPath
from ibnn.lab.runner.contract import Experiment
from ibnn.lab.runner.finished import Run
from ibnn.lab.runner.measured import measured, stored
from ibnn.lab.runner.outcome import Emit, Outcome
from ibnn.lab.runner.run import run_all
from ibnn.lab.training import Result, RunConfig, RunFolder, with_checksum


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
        tried = {*total.done, *total.skipped, *total.failed}
        known = _planned(experiment, settings, root)
        new = [config for name, config in known.items() if name not in tried]
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
    finished: list[RunConfig] = []
    left: list[RunConfig] = []
    for name, config in _planned(experiment, settings, root).items():
        is_finished = RunFolder(root, name).status() == "finished"
        (finished if is_finished else left).append(config)
    return finished, left


def results(experiment: Experiment, settings: Any, root: StrPath) -> dict[str, Result]:
    """The results on disk of every run the experiment needs, later stages included.

    By the identities of its plan: those its later stages ask for.
    """
    found: dict[str, Result] = {}
    while True:
        known = {config.identity(): config for config in experiment.plan(settings, found)}
        new = {
            name: RunFolder(root, with_checksum(config).identity())
            for name, config in known.items()
            if name not in found
        }
        finished = {
            n: folder.result() for n, folder in new.items() if folder.status() == "finished"
        }
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
        runs.append(measured(experiment, Run(config, folder.result(), folder, {}, data_root)))
        if on_measure:
            on_measure(number, len(finished))
    return runs, missing


def unmeasured(experiment: Experiment, settings: Any, root: StrPath) -> list[RunConfig]:
    """The runs known so far, trained or not, on which `collect` will measure something."""
    known = _planned(experiment, settings, root)
    return [c for name, c in known.items() if stored(experiment, RunFolder(root, name)) is None]


def _planned(experiment: Experiment, settings: Any, root: StrPath) -> dict[str, RunConfig]:
    """The runs known so far by the names of their folders, as `run_all` has them: a user's own file
    goes by its contents."""
    known = experiment.plan(settings, results(experiment, settings, root))
    return {config.identity(): config for config in map(with_checksum, known)}
