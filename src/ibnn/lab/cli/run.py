"""`ibnn run`: an experiment from nothing to its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibnn.lab.cli.choices import prepare_folder, read_settings, typed
from ibnn.lab.cli.errors import Debug, RunsFailedError, stoppable

if TYPE_CHECKING:
    from ibnn.lab.experiments.experiment import Experiment, Settings
    from ibnn.lab.runner import Outcome

_KINDS: dict[str, type] = {
    "preset": str,
    "dataset": str,
    "data": str,
    "out": str,
    "seeds": int,
    "epochs": int,
    "engine": str,
    "workers": int,
    "address": str,
}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "run",
        epilog="Example: ibnn run boundary --preset smoke --out results",
        short_help="Run an experiment of the paper and write its report.",
    )(run)


def run(
    experiment: Annotated[str, typer.Argument(help="Which: boundary.")],
    preset: Annotated[
        str | None,
        typer.Option(help="smoke (seconds), cpu (two cores, the default) or paper (in full)."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Instead of the experiment's own; see `ibnn data list`.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of datasets (default: $IBNN_DATA or a cache).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of runs and reports.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Instead of the preset's number.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Instead of the preset's number.")] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="inline, processes, ray, or together (many tiny networks as one)."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at a time (default: cores).")] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster to join.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with any of these; options here come first.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run.")] = False,
    debug: Debug = False,
) -> None:
    """Run an experiment of the paper and write its report (HTML, PNG, PDF, CSV).

    Finished runs are kept and reused; a stopped command goes on where it was.
    """
    given = {
        "preset": preset,
        "dataset": dataset,
        "data": data,
        "out": out,
        "seeds": seeds,
        "epochs": epochs,
        "engine": engine,
        "workers": workers,
        "address": address,
    }
    stored = read_settings(config, _KINDS)
    typed(stored, _KINDS, config)
    chosen: dict[str, Any] = stored | {k: v for k, v in given.items() if v is not None}

    from ibnn.lab.experiments import ENGINES, Settings, execute, get
    from ibnn.lab.report import write_report

    which = get(experiment)
    names = ("preset", "dataset", "seeds", "epochs")
    settings = Settings(**{name: chosen[name] for name in names if name in chosen})
    which.check(settings)
    if chosen.get("engine", ENGINES[0]) not in ENGINES:
        raise typer.BadParameter(
            f"engine is {chosen['engine']!r}, expected one of {', '.join(ENGINES)}"
        )
    root = Path(chosen.get("out", "results"))
    if dry_run:
        return _tell_plan(which, settings, root)
    from ibnn.lab.cli.progress import progress

    prepare_folder(root)
    used = chosen.get("engine") or which.engine
    with stoppable(), progress(used) as on_event:
        outcome = execute(
            which,
            settings,
            root,
            engine=used,
            workers=chosen.get("workers"),
            address=chosen.get("address"),
            data_root=chosen.get("data"),
            on_event=on_event,
        )
    typer.echo(str(outcome))
    _refuse_full_disk(outcome)
    if outcome.done or outcome.skipped:
        with stoppable():
            typer.echo(f"report: {write_report(which, settings, root)}")
    if outcome.failed:
        raise RunsFailedError(_failures(outcome, root))
    return None


def _tell_plan(experiment: Experiment, settings: Settings, root: Path) -> None:
    from ibnn.lab.experiments import plan

    finished, left = plan(experiment, settings, root)
    for config in left:
        typer.echo(f"{config.identity()}  {config.title()}, {config.epochs} epochs")
    typer.echo(f"{len(left)} runs to train, {len(finished)} finished, in {root}")
    typer.echo(
        "Further runs may follow from these results." if left else "Nothing is left to train."
    )


def _failures(outcome: Outcome, root: Path) -> str:
    names = list(outcome.failed)
    reason = outcome.failed[names[0]].partition("\n")[0]
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return f"{len(names)} failed: {listed} ({reason}); see `ibnn runs show ID --out {root}`"


def _refuse_full_disk(outcome: Outcome) -> None:
    """A full disk fails every run in turn: tell it once, as what it is."""
    import errno

    mark = f"OSError: [Errno {errno.ENOSPC}]"
    if any(text.startswith(mark) for text in outcome.failed.values()):
        raise OSError(errno.ENOSPC, "no space left on the disk")
