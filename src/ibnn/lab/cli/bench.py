"""`ibnn bench`: what the implicit bias costs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ibnn.lab.cli.errors import Debug, stoppable

if TYPE_CHECKING:  # importing torch takes a second
    import torch


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer conditions and repetitions.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for results.json, tables.md, CSV files and plots.")
    ] = Path("bench"),
    only: Annotated[
        str | None, typer.Option(help="One section: layers, cliffs, busy, training, peers, ...")
    ] = None,
    engine: Annotated[str, typer.Option(help="native, portable or both.")] = "both",
    device: Annotated[
        str, typer.Option(help="cuda, cuda:1, ...: one table of layers, timed by the device.")
    ] = "cpu",
    debug: Debug = False,
) -> None:
    """Measure what the implicit bias costs on this machine; first prints the estimated time."""
    from ibnn.lab.bench import BenchSettings, run
    from ibnn.lab.cli.choices import prepare_folder
    from ibnn.lab.training import choose_device

    place = choose_device(device)
    if place.type != "cpu":
        _on_device(place, quick, prepare_folder(out))
        return
    try:
        settings = BenchSettings(quick=quick, engine=engine, only=only)
        if not settings.engines:
            raise ValueError(f"engine {engine!r} is not available on this machine")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    prepare_folder(out)
    with stoppable():
        run(settings, out)


def _on_device(place: torch.device, quick: bool, out: Path) -> None:
    from ibnn.lab import files
    from ibnn.lab.bench import gpu

    found = []
    with stoppable():
        for line in gpu.lines(place, gpu.TINY if quick else gpu.PROBLEMS, 5 if quick else 20):
            typer.echo(line)
            found.append(line)
    files.write_text(out / "device.md", "\n".join(found) + "\n")
