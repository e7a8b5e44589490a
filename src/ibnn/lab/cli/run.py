"""`ibnn run`: an experiment from nothing to its report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibnn.lab.cli.choices import (
    Config,
    Data,
    Log,
    OtherDevice,
    prepare_folder,
    read_settings,
    typed,
)
from ibnn.lab.cli.errors import Debug, RunsFailedError, stoppable
from ibnn.lab.experiment_table import OWN

if TYPE_CHECKING:
    from ibnn.lab.experiments.everything import Job
    from ibnn.lab.runner import Outcome

_KINDS: dict[str, type] = {
    **dict.fromkeys(
        ("preset", "dataset", "data", "out", "engine", "address", "lam", "device"), str
    ),
    **dict.fromkeys(("seeds", "first_seed", "epochs", "channels", "workers"), int),
    "log": list,
}


def _known(incomplete: str) -> list[str]:
    return [name for name in (*OWN, "all") if name.startswith(incomplete)]


def run(
    command: typer.Context,
    experiment: Annotated[
        str, typer.Argument(help=f"{', '.join(OWN)}; or all.", autocompletion=_known)
    ],
    preset: Annotated[
        str | None,
        typer.Option(help="smoke (seconds), cpu (two cores, the default) or paper (in full)."),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Dataset other than the experiment's own; see `ibnn data list`."),
    ] = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="Folder of runs and reports.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds, if not the preset's.")] = None,
    first_seed: Annotated[
        int | None, typer.Option(help="First seed, if not 0: other networks than published.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs, if not the preset's.")] = None,
    channels: Annotated[
        int | None,
        typer.Option(help="Channels of every layer of an image network, if not the dataset's."),
    ] = None,
    lam: Annotated[
        str | None,
        typer.Option(help="How lam is chosen: learnt (the default), frozen, picked, or a number."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Runner: inline, processes, ray, slurm, or ensemble (many tiny networks as one)."
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at a time (default: cores).")] = None,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster, or a Slurm partition.")
    ] = None,
    device: OtherDevice = None,
    log: Log = None,
    config: Config = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would run, and the estimated time.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Run an experiment of the paper and write its report (HTML, PNG, PDF, CSV).

    `all` runs every experiment on every dataset that is available. Finished runs are kept and
    shared between experiments; a stopped command resumes where it was. `index.html` in the
    output folder has the claims of all reports.
    """
    stored = read_settings(config, _KINDS)
    typed(stored, _KINDS, config)
    given = {name: command.params[name] for name in _KINDS}
    chosen: dict[str, Any] = stored | {k: v for k, v in given.items() if v not in (None, (), [])}

    from ibnn.lab.experiments import Settings
    from ibnn.lab.experiments.everything import Job, jobs
    from ibnn.lab.experiments.registry import get
    from ibnn.lab.runner.options import runs_at_once

    known = ("preset", "dataset", "seeds", "first_seed", "epochs", "channels", "lam")
    settings = Settings(**{name: chosen[name] for name in known if name in chosen})
    if experiment == "all":
        work, left_out = jobs(settings, chosen.get("data"))
        for line in left_out:
            typer.echo(f"skipped: {line}")
    else:
        work = [Job(get(experiment), settings)]
    for job in work:
        engine = str(chosen.get("engine") or job.experiment.engine)
        runs_at_once(engine, chosen.get("workers"), chosen.get("address"), 1)
        job.experiment.check(job.settings)
    root = Path(chosen.get("out", "results"))
    if dry_run:
        from ibnn.lab.cli.plan import tell_plan

        return tell_plan(work, root, chosen)
    prepare_folder(root)
    if len(work) > 1:
        from ibnn.lab.cli.plan import tell_time

        tell_time(work, root, chosen)
    failed: list[str] = []
    for job in work:
        failed += _run(job, root, chosen)
    from ibnn.lab.report import write_overview

    typer.echo(f"all claims: {write_overview(root)}")
    if failed:
        raise RunsFailedError("; ".join(failed))
    return None


def _run(job: Job, root: Path, chosen: Mapping[str, Any]) -> list[str]:
    """Train, measure and report; a line about runs that failed."""
    from ibnn.lab.cli.plan import tell_measuring
    from ibnn.lab.cli.progress import measuring, progress
    from ibnn.lab.experiments import execute
    from ibnn.lab.report import write_report

    used = chosen.get("engine") or job.experiment.engine
    typer.echo(job.title)
    tell_measuring(job, root)
    with stoppable(), progress(used) as on_event:
        outcome = execute(
            job.experiment,
            job.settings,
            root,
            engine=used,
            workers=chosen.get("workers"),
            address=chosen.get("address"),
            data_root=chosen.get("data"),
            device=chosen.get("device", "cpu"),
            log=tuple(chosen.get("log", ())),
            on_event=on_event,
        )
    typer.echo(str(outcome))
    _refuse_full_disk(outcome)
    if outcome.done or outcome.skipped:
        with stoppable(), measuring() as on_measure:
            page = write_report(job.experiment, job.settings, root, chosen.get("data"), on_measure)
        typer.echo(f"report: {page}")
    return [_failures(outcome, root)] if outcome.failed else []


def _failures(outcome: Outcome, root: Path) -> str:
    names = list(outcome.failed)
    reason = outcome.failed[names[0]].partition("\n")[0]
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return f"{len(names)} failed: {listed} ({reason}); see `ibnn runs show ID --out {root}`"


def _refuse_full_disk(outcome: Outcome) -> None:
    """A full disk fails every run in turn: report it once."""
    import errno

    mark = f"OSError: [Errno {errno.ENOSPC}]"
    if any(text.startswith(mark) for text in outcome.failed.values()):
        raise OSError(errno.ENOSPC, "no space left on the disk")
