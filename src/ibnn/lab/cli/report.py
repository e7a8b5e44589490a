"""`ibnn report`: make reports again from stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ibnn.lab.cli.errors import Debug


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "report",
        epilog="Example: ibnn report results",
        short_help="Make reports again from stored runs, without training.",
    )(report)


def report(
    folder: Annotated[
        Path, typer.Argument(help="A report's folder, or the --out folder: all reports in it.")
    ],
    debug: Debug = False,
) -> None:
    """Make reports again from stored runs, without training."""
    from ibnn.lab.report import find_reports, rebuild, write_overview

    found = find_reports(folder)
    for one in found:
        typer.echo(f"report: {rebuild(one)}")
    typer.echo(f"every claim: {write_overview(found[0].absolute().parent)}")
