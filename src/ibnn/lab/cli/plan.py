"""What `ibnn run` would train, and how long that would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ibnn.lab.experiments.everything import Job
    from ibnn.lab.training import RunConfig


def tell_plan(work: Sequence[Job], root: Path, chosen: Mapping[str, Any]) -> None:
    """What is left to train, and how long it takes: every run, or of `all` every experiment."""
    known: dict[str, RunConfig] = {}
    timed: list[RunConfig] = []
    for job in work:
        finished, left = _plan(job, root)
        new = {c.identity(): c for c in left if c.identity() not in known}
        known |= new
        timed += new.values() if job.experiment.engine != "ensemble" else ()
        if len(work) == 1:
            for identity, config in new.items():
                typer.echo(f"{identity}  {config.title()}, {config.epochs} epochs")
        shared = len(left) - len(new)
        more = f", {shared} shared with experiments above" if shared else ""
        counted = f"{len(new)} runs to train, {len(finished)} finished{more}"
        typer.echo(f"{job.title}: {counted}" if len(work) > 1 else f"{counted}, in {root}")
    if not known:
        return typer.echo("Nothing is left to train.")
    typer.echo("Further runs may follow from these results.")
    for job in work:
        tell_measuring(job, root)
    return _tell_time(timed, root, chosen, rough=len(work) > 1)


def tell_time(work: Sequence[Job], root: Path, chosen: Mapping[str, Any]) -> None:
    """How long the runs known so far will take, before they are trained."""
    left: dict[str, RunConfig] = {}
    for job in work:
        if job.experiment.engine != "ensemble":
            left |= {config.identity(): config for config in _plan(job, root)[1]}
    _tell_time(list(left.values()), root, chosen, rough=len(work) > 1)


def tell_measuring(job: Job, root: Path) -> None:
    """How long it takes to measure what will have been trained, where that is most of the work."""
    from ibnn.lab.runner import duration, unmeasured

    runs = unmeasured(job.experiment, job.settings, root)
    seconds = job.experiment.measuring_seconds(runs)
    if seconds:
        typer.echo(
            f"About {duration(seconds)} to measure {len(runs)} runs of {job.experiment.name}, "
            "estimated from a few steps here."
        )


def _tell_time(
    left: Sequence[RunConfig], root: Path, chosen: Mapping[str, Any], rough: bool
) -> None:
    """From a few steps of networks like these on this machine; a rough answer takes seconds."""
    from ibnn.lab.data import status
    from ibnn.lab.runner import duration
    from ibnn.lab.runner.estimate import estimate
    from ibnn.lab.runner.options import RunnerOptions, cores, runs_at_once

    if not left:
        return None
    data = chosen.get("data")
    used = {config.dataset for config in left}
    absent = [one for one in status(data) if one.name in used and not one.present]
    if absent:  # to time a network on it would download it
        names = "; ".join(f"{one.name} is absent ({one.how})" for one in absent)
        return typer.echo(f"No estimate of the time: {names}.")
    engine = "inline" if chosen.get("engine") == "inline" else "processes"
    workers = runs_at_once(engine, chosen.get("workers"), None, len(left))
    options = RunnerOptions(
        root=root,
        data_root=Path(data) if data else None,
        workers=workers,
        threads=max(1, cores() // workers),
        device=chosen.get("device", "cpu"),
    )
    seconds = estimate(left, options, coarse=rough)
    alone = f"{workers} at a time" if workers > 1 else "one at a time"
    return typer.echo(
        f"{'Roughly' if rough else 'About'} {duration(seconds)} to train {len(left)} runs, "
        f"{alone}, estimated from a few steps of such networks here."
    )


def _plan(job: Job, root: Path) -> tuple[list[RunConfig], list[RunConfig]]:
    from ibnn.lab.experiments import plan

    return plan(job.experiment, job.settings, root)
