"""`ibnn report`: make reports again from stored runs."""

from pathlib import Path
from typing import Annotated

import typer

from ibnn.lab.cli.choices import Data, prepare_folder
from ibnn.lab.cli.errors import Debug


def report(
    folder: Annotated[
        Path, typer.Argument(help="A report's folder, or the --out folder: all reports in it.")
    ],
    export: Annotated[
        Path | None, typer.Option(help="Also write them here as Markdown, PNG, CSV and JSON.")
    ] = None,
    add: Annotated[
        Path | None,
        typer.Option(help="CSV of an earlier export: networks trained elsewhere join the report."),
    ] = None,
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Write reports again from stored runs, without training."""
    from ibnn.lab.data import DataError
    from ibnn.lab.report import ReportError, find_reports, rebuild, write_overview
    from ibnn.lab.training import RunError

    found = find_reports(folder)
    if add is not None and len(found) > 1:
        raise typer.BadParameter(f"{folder} has {len(found)} reports, expected the folder of one")
    if export is not None:
        _refuse_other_pages(prepare_folder(export))
    made, failed = [], []
    for one in found:
        try:
            typer.echo(f"report: {rebuild(one, add, data)}")
            made.append(one.name)
        except (ReportError, RunError, DataError) as error:
            failed.append(str(error))
    if not made:
        raise ReportError("; ".join(failed))
    root = found[0].parent
    typer.echo(f"all claims: {write_overview(root)}")
    if export is not None:
        from ibnn.lab.report.export import export as write_markdown

        typer.echo(f"exported: {write_markdown(root, export, made)[0]}")
    if failed:
        raise ReportError("; ".join(failed))


def _refuse_other_pages(export: Path) -> None:
    """An export writes a README.md: over its own, not over that of somebody's project."""
    if (export / "README.md").exists() and not any(export.glob("*/findings.json")):
        raise typer.BadParameter(
            f"--export: {export} has a README.md that is not of an export; expected another folder"
        )
