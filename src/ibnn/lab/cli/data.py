"""`ibnn data`: which datasets there are, fetch them, check them."""

from typing import Annotated

import typer

from ibnn.lab.cli.choices import Data
from ibnn.lab.cli.errors import Debug, stoppable

group = typer.Typer(name="data", rich_markup_mode=None)


@group.command("list", epilog="Example: ibnn data list --data datasets")
def list_all(data: Data = None, debug: Debug = False) -> None:
    """List the datasets, where they are, or how to get them."""
    from ibnn.lab import data as datasets

    for entry in datasets.status(data):
        size = f"{entry.size / 1e6:,.1f} MB" if entry.size else "-"
        state = entry.where if entry.present else f"absent; {entry.how}"
        typer.echo(f"{entry.name:14} {size:>10}  {entry.about}\n{'':26} {state}")


@group.command(
    "get", short_help="Download datasets.", epilog="Example: ibnn data get fashion-mnist mnist"
)
def get(
    names: Annotated[list[str], typer.Argument(help="Names from `ibnn data list`.")],
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Download datasets, checked and resumable; those already downloaded are skipped."""
    from ibnn.lab import data as datasets

    for name in names:
        with stoppable():
            fetched = datasets.get(name, data)
        typer.echo(f"{name}: {'downloaded' if fetched else 'already there'}")


@group.command("check", epilog="Example: ibnn data check fashion-mnist")
def check(
    names: Annotated[list[str], typer.Argument(help="Names, or paths of .npz files.")],
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Read datasets and report what is wrong with them."""
    from ibnn.lab import data as datasets

    problems = []
    for name in names:
        wrong = datasets.check(name, data)
        problems += wrong
        if not wrong:
            typer.echo(f"{name}: ok")
    if problems:
        raise datasets.DataError(*problems)
