"""`ibnn runs`: what has been trained, look at one, remove what is of no use."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ibnn.lab.cli.errors import Debug

if TYPE_CHECKING:
    from ibnn.lab.training import RunFolder

Out = Annotated[Path, typer.Option(help="Folder of runs and reports.")]

group = typer.Typer(name="runs", rich_markup_mode=None)


@group.command(
    "list",
    short_help="List all runs and converted networks.",
    epilog="Example: ibnn runs list --out results",
)
def list_all(out: Out = Path("results"), debug: Debug = False) -> None:
    """List every run with its state and accuracy, and the converted networks beside them."""
    from ibnn.lab.training import CheckpointError, open_network

    runs, networks = _runs(out), sorted(out.glob("*.safetensors"))
    if not (runs or networks):
        typer.echo(f"no runs in {out}")
    for folder in runs:
        try:
            status, title, note = folder.status(), folder.config().title(), ""
            if status == "finished":
                result = folder.result()
                unit = " bits" if result.best_bits_per_character is not None else ""
                note = f"  {result.last:>7}{unit}"
        except CheckpointError as error:  # one damaged run must not hide the others
            status, title, note = "damaged", str(error), ""
        typer.echo(f"{folder.identity}  {status:8}{note:9}  {title}")
    for file in networks:
        try:
            typer.echo(f"{file.name}  {open_network(file).title()}")
        except CheckpointError as error:
            typer.echo(f"{file.name}  damaged  {error}")


@group.command(
    "show",
    short_help="Show one run or converted network.",
    epilog="Example: ibnn runs show 6ca99e943534 --out results",
)
def show(
    run: Annotated[
        str,
        typer.Argument(
            help="Its identity or the beginning of it, its folder, or a converted network."
        ),
    ],
    out: Out = Path("results"),
    debug: Debug = False,
) -> None:
    """Show one run: its config, its epochs, its result or why it failed; or a converted network."""
    if Path(run).is_file():
        _show_network(Path(run))
        return
    folder = _one(out, run)
    typer.echo(f"{folder.config().title()} ({folder.status()})\n{folder.path}\n")
    typer.echo(folder.config().to_json())
    for line in folder.metrics():
        pieces = "images" if line.bits_per_character is None else "pieces"
        typer.echo(f"{line}, {line.images_per_second:,.0f} {pieces}/s")
    if folder.status() == "finished":
        result = folder.result()
        typer.echo(
            f"\nbest {result.best} in epoch {result.best_epoch}, last {result.last}, "
            f"{result.parameters:,} parameters"
        )
    elif folder.error():
        typer.echo(f"\n{folder.error()}")


def _show_network(path: Path) -> None:
    """A network apart from any run: what it was trained as, and what it was converted to."""
    from ibnn.lab.models import implicit_layers
    from ibnn.lab.training import open_network, parameter_count

    opened = open_network(path)
    typer.echo(f"{opened.title()}\n{path}\n")
    typer.echo(opened.config.to_json())
    lams = [float(layer.effective_lam.detach().mean()) for layer in implicit_layers(opened.network)]
    kind = f"lam {', '.join(f'{lam:.3g}' for lam in lams)}" if lams else "a standard network"
    typer.echo(f"{kind}, {parameter_count(opened.network):,} parameters that can be learnt")


@group.command(
    "clean", short_help="Remove runs.", epilog="Example: ibnn runs clean --failed --out results"
)
def clean(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Identities, beginnings of them, or folders.")
    ] = None,
    out: Out = Path("results"),
    failed: Annotated[bool, typer.Option("--failed", help="All failed runs.")] = False,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="All unfinished runs.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be removed.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Remove runs: those named, those that failed, those that were never finished."""
    from ibnn.lab.training import RunLockedError

    if not (runs or failed or unfinished):
        raise typer.BadParameter("name runs, or give --failed or --unfinished")
    kinds = {kind for kind, on in (("failed", failed), ("started", unfinished)) if on}
    chosen = {folder.identity: folder for folder in (_one(out, run) for run in runs or [])}
    chosen |= {f.identity: f for f in _runs(out) if f.status() in kinds} if kinds else {}
    for folder in chosen.values():
        what, title = "would remove" if dry_run else "removed", _title(folder)
        try:
            if not dry_run:
                with folder.lock():
                    shutil.rmtree(folder.path)
        except RunLockedError:
            what = "left alone, it is being trained:"
        typer.echo(f"{what} {folder.identity}  {title}")
    if not chosen:
        typer.echo("nothing to remove")


def _title(folder: RunFolder) -> str:
    from ibnn.lab.training import CheckpointError

    try:
        return folder.config().title()
    except CheckpointError:
        return "(its configuration cannot be read)"


def _runs(out: Path) -> list[RunFolder]:
    from ibnn.lab.training import all_runs

    if not out.is_dir():
        raise typer.BadParameter(f"{out} is not a folder; --out is the folder of the runs")
    return all_runs(out)


def _one(out: Path, name: str) -> RunFolder:
    # by the beginning of its identity, which an empty text is not, or by its folder
    matches = [
        folder
        for folder in _runs(out)
        if (name and folder.identity.startswith(name))
        or folder.path.resolve() == Path(name).resolve()
    ]
    if len(matches) != 1:
        found = "no run" if not matches else f"more than one run ({len(matches)})"
        raise typer.BadParameter(f"{found} in {out} begins with {name!r}; see `ibnn runs list`")
    return matches[0]
