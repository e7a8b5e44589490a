"""`ibnn data`: which datasets there are, fetch them, check them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ibnn.lab.cli.errors import Debug, stoppable

Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of datasets (default: $IBNN_DATA or a cache).")
]

_group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    app.add_typer(
        _group,
        name="data",
        help="List, fetch and check datasets.",
        epilog="Example: ibnn data get fashion-mnist",
    )


@_group.command("list", epilog="Example: ibnn data list --data datasets")
def list_all(data: Data = None, debug: Debug = False) -> None:
    """List the datasets, where they are, or how to get them."""
    from ibnn.lab import data as datasets

    for entry in datasets.status(data):
        size = f"{entry.size / 1e6:,.1f} MB" if entry.size else "-"
        state = entry.where if entry.present else f"absent; {entry.how}"
        typer.echo(f"{entry.name:14} {size:>10}  {entry.about}\n{'':26} {state}")


@_group.command("get", epilog="Example: ibnn data get fashion-mnist mnist")
def get(
    names: Annotated[list[str], typer.Argument(help="Names from `ibnn data list`.")],
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Download datasets, checked and resumable; those already there are left alone."""
    from ibnn.lab import data as datasets

    for name in names:
        with stoppable():
            datasets.get(name, data)
        typer.echo(f"{name}: there")


@_group.command("check", epilog="Example: ibnn data check fashion-mnist")
def check(
    names: Annotated[list[str], typer.Argument(help="Names, or paths of .npz files.")],
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Read datasets and say what is wrong with them."""
    from ibnn.lab import data as datasets

    problems = []
    for name in names:
        wrong = datasets.check(name, data)
        problems += wrong
        if not wrong:
            typer.echo(f"{name}: all is well")
    if problems:
        raise datasets.DataError(*problems)
