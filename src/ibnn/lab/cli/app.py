"""All commands, and `main`, the door through which every error leaves as one line."""

import os
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
    warmup,
)
from ibnn.lab.cli.errors import explain, own_warnings_in_one_line
from ibnn.lab.plugins import load_plugins

HELP = {"-h", "--help"}

app = typer.Typer(
    name="ibnn",
    help="Implicit-bias neurons: run the experiments, train networks, inspect results.",
    epilog="Example: ibnn run capacity --out results",
    rich_markup_mode=None,
    context_settings={"help_option_names": sorted(HELP)},
)
# each command with its line in the list of all, and an example for its own help
for _command, _line, _example in (
    (
        run.run,
        "Run an experiment of the paper and write its report.",
        "run capacity --preset smoke --out results",
    ),
    (
        train.train,
        "Train one network on one dataset.",
        "train --dataset fashion-mnist --layers 1 --channels 3 --neuron implicit --epochs 3",
    ),
    (
        attack.attack,
        "Attack a trained network and check the result.",
        "attack results/runs/6ca99e943534 --eps 0.1 --images 200",
    ),
    (
        convert.convert,
        "Convert a trained standard network to an implicit one, without training.",
        "convert results/runs/6ca99e943534 --lam -0.1 --out converted.safetensors",
    ),
    (
        analyze.analyze,
        "Measure the paper's theory on a trained network.",
        "analyze results/runs/6ca99e943534 --lam -0.1 --out analysis",
    ),
    (
        report.report,
        "Write reports again from stored runs, without training.",
        "report results",
    ),
    (
        bench.bench,
        "Measure what the implicit bias costs on this machine.",
        "bench --quick --only layers --out bench",
    ),
    (
        warmup.warmup,
        "Compile the engines ahead of time.",
        "warmup --device cuda --units 256,1024",
    ),
    (playground.playground, "Train both networks side by side in the browser.", "playground"),
):
    app.command(short_help=_line, epilog=f"Example: ibnn {_example}")(_command)
for _group, _line, _example in (
    (data.group, "List, fetch and check datasets.", "data get fashion-mnist"),
    (runs.group, "List, show and remove runs.", "runs list --out results"),
):
    app.add_typer(_group, help=_line, epilog=f"Example: ibnn {_example}")


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


def _check_engine() -> None:
    """A misspelt IBNN_ENGINE is told before any work, not by the first solve of a training."""
    name = os.environ.get("IBNN_ENGINE")
    if name:
        from ibnn.engine import check_name

        try:
            check_name(name)
        except ValueError as error:
            raise typer.BadParameter(f"IBNN_ENGINE: {error}") from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in ([], [data.group.info.name], [runs.group.info.name]):  # nothing is asked for yet
        given.append("--help")
    try:
        if not HELP & {*given}:  # it has no need of them, and they import torch
            load_plugins()
            _check_engine()
        with own_warnings_in_one_line():
            code = typer.main.get_command(app).main(given, prog_name="ibnn", standalone_mode=False)
    except BaseException as error:
        if "--debug" in given and not isinstance(error, SystemExit):
            import traceback

            traceback.print_exc()
        code, line = explain(error)
        if line:
            print(f"ibnn: {line}", file=sys.stderr)
    raise SystemExit(code or 0)
