"""All commands, and `main`, the door through which every error leaves as one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ibnn.lab.cli import (
    analyze,
    attack,
    bench,
    convert,
    data,
    playground,
    report,
    run,
    runs,
    train,
)
from ibnn.lab.cli.errors import explain
from ibnn.lab.plugins import load_plugins

HELP = {"-h", "--help"}

app = typer.Typer(
    name="ibnn",
    help="Neurons that listen to their neighbors: run the experiments, train, look at results.",
    epilog="Example: ibnn run capacity --out results",
    rich_markup_mode=None,
    context_settings={"help_option_names": sorted(HELP)},
)
run.add_to(app)
train.add_to(app)
attack.add_to(app)
convert.add_to(app)
analyze.add_to(app)
data.add_to(app)
runs.add_to(app)
report.add_to(app)
bench.add_to(app)
playground.add_to(app)


def _version(wanted: bool) -> None:
    if wanted:
        import ibnn

        typer.echo(f"ibnn {ibnn.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        if not HELP & {*given}:  # it has no need of them, and they import torch
            load_plugins()
        code = typer.main.get_command(app).main(given, prog_name="ibnn", standalone_mode=False)
    except BaseException as error:
        if "--debug" in given and not isinstance(error, SystemExit):
            import traceback

            traceback.print_exc()
        code, line = explain(error)
        if line:
            print(f"ibnn: {line}", file=sys.stderr)
    raise SystemExit(code or 0)
