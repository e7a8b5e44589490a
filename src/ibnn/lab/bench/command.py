"""`ibnn bench`, as a function that typer turns into a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ibnn.lab.bench.settings import SECTIONS, Settings


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer conditions and repetitions: under a minute.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for results.json, tables.md, CSV files and plots.")
    ] = Path("bench"),
    only: Annotated[str | None, typer.Option(help=f"One section: {', '.join(SECTIONS)}.")] = None,
    engine: Annotated[str, typer.Option(help="native, portable or both.")] = "both",
) -> None:
    """Measure what the implicit bias costs on this machine.

    Example: ibnn bench --quick --only layers --out bench
    """
    from ibnn.lab.bench.run import run

    try:
        settings = Settings(quick=quick, engine=engine, only=only)
        if not settings.engines:
            raise ValueError(f"engine {engine!r} is not available on this machine")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    run(settings, out)
