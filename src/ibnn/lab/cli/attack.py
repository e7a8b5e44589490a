"""`ibnn attack`: a trained network under attack, with checks and a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ibnn.lab.cli.choices import prepare_folder
from ibnn.lab.cli.errors import Debug, stoppable


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "attack",
        epilog="Example: ibnn attack results/runs/6ca99e943534 --eps 0.1 --images 200",
        short_help="Attack a trained network and check the result.",
    )(attack)


def attack(
    checkpoint: Annotated[
        Path, typer.Argument(help="Folder of a run: <out>/runs/<identity> of `ibnn train`.")
    ],
    eps: Annotated[float, typer.Option(help="Radius of the ball around each image.")],
    norm: Annotated[str, typer.Option(help="Of the ball: linf or l2.")] = "linf",
    attacks: Annotated[
        str, typer.Option(help="standard, or names with commas: pgd,apgd-t,square,pixle, ...")
    ] = "standard",
    images: Annotated[int, typer.Option(min=1, help="Only the first of the test split.")] = 1000,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the work.")] = False,
    checks: Annotated[bool, typer.Option("--checks/--no-checks")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of random starts.")] = 0,
    batch_size: Annotated[int, typer.Option(min=1)] = 250,
    data: Annotated[
        Path | None, typer.Option(help="Folder of datasets (default: $IBNN_DATA or a cache).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of results (default: inside the run's).")
    ] = None,
    debug: Debug = False,
) -> None:
    """Attack a trained network: accuracy left by each attack, what is proven, and whether the
    numbers can be believed; as text, JSON and a figure."""
    from ibnn.lab.attacks import evaluate, suite
    from ibnn.lab.attacks.evaluation_figure import save
    from ibnn.lab.training import RunFolder

    try:
        chosen = suite(attacks, eps, norm, quick)  # type: ignore[arg-type]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    folder = RunFolder.at(checkpoint)
    network, config = folder.network(), folder.config()
    x, y = _images(config, data, images)
    where = prepare_folder(out or folder.path / "attacks" / f"{norm}-{eps:g}")
    with stoppable(), _bar() as progress:
        found = evaluate(
            network,
            x.to(next(network.parameters()).dtype),
            y,
            eps=eps,
            norm=norm,  # type: ignore[arg-type]
            attacks=chosen,
            checks=checks,
            seed=seed,
            batch_size=batch_size,
            progress=progress,
        )
    written = save(found, where)
    typer.echo(f"{config.title()}\n\n{found.text()}")
    for path in written:
        typer.echo(path)


def _images(config: Any, data_root: Path | None, count: int) -> tuple[Any, Any]:
    """The first images the run was validated on, in [0, 1]."""
    from ibnn.lab import data
    from ibnn.lab.training import examples

    split = examples(config, data_root)
    if len(split.image_shape) != 3:
        raise typer.BadParameter(
            f"{config.dataset} has points (shape {split.image_shape}), expected images in [0, 1]"
        )
    (batch,) = data.batches(split.x_test[:count], split.y_test[:count], count)
    return batch


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """One bar on stderr for all attacks and checks; nothing where nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.completed}/{task.total}"), BarColumn(bar_width=24)
    text = TextColumn("{task.description}")
    with Progress(
        *columns, text, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task("", total=1)

        def tell(what: str, done: int, total: int) -> None:
            bars.update(task, description=what, completed=done, total=total)

        yield tell
