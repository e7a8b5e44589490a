"""`ibnn bench`: what the implicit bias costs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ibnn.lab.cli.errors import Debug, stoppable


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
    debug: Debug = False,
) -> None:
    """Measure what the implicit bias costs on this machine; says beforehand how long it takes."""
    from ibnn.lab.bench import BenchSettings, run
    from ibnn.lab.cli.choices import prepare_folder

    try:
        settings = BenchSettings(quick=quick, engine=engine, only=only)
        if not settings.engines:
            raise ValueError(f"engine {engine!r} is not available on this machine")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    prepare_folder(out)
    with stoppable():
        run(settings, out)
