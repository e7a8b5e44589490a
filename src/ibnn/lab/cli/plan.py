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
    """Every run that is left, by experiment, then the time."""
    told: set[str] = set()
    for job in work:
        finished, left = _plan(job, root)
        new = [config for config in left if config.identity() not in told]
        told |= {config.identity() for config in new}
        if len(work) > 1:
            typer.echo(f"{job.title}:")
        for config in new:
            typer.echo(f"{config.identity()}  {config.title()}, {config.epochs} epochs")
        shared = len(left) - len(new)
        more = f", {shared} shared with experiments above" if shared else ""
        typer.echo(f"{len(new)} runs to train, {len(finished)} finished{more}, in {root}")
    if not told:
        return typer.echo("Nothing is left to train.")
    typer.echo("Further runs may follow from these results.")
    return tell_time(work, root, chosen)


def tell_time(work: Sequence[Job], root: Path, chosen: Mapping[str, Any]) -> None:
    """How long the runs known so far will take, from a few steps of each kind of network."""
    from ibnn.lab.runner import duration
    from ibnn.lab.runner.engine import EngineOptions, cores
    from ibnn.lab.runner.estimate import estimate

    left: dict[str, RunConfig] = {}
    for job in work:
        if job.experiment.engine != "ensemble":
            left |= {config.identity(): config for config in _plan(job, root)[1]}
    if not left:
        return
    workers = min(chosen.get("workers") or cores(), len(left))
    data = chosen.get("data")
    seconds = estimate(
        list(left.values()),
        EngineOptions(
            root=root,
            data_root=Path(data) if data else None,
            workers=workers,
            threads=max(1, cores() // workers),
        ),
    )
    alone = f"{workers} at a time" if workers > 1 else "one at a time"
    typer.echo(
        f"About {duration(seconds)} to train {len(left)} runs, {alone}, judged by a few steps of "
        "each kind of network here."
    )


def _plan(job: Job, root: Path) -> tuple[list[RunConfig], list[RunConfig]]:
    from ibnn.lab.experiments import plan

    return plan(job.experiment, job.settings, root)
