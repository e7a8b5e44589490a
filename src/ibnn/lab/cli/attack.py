"""`ibnn attack`: a trained network under attack, with checks and a certificate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ibnn.lab.cli.choices import (
    Checkpoint,
    Data,
    Device,
    open_checkpoint,
    prepare_folder,
    refuse_large,
)
from ibnn.lab.cli.errors import Debug, stoppable


def attack(
    command: typer.Context,
    checkpoint: Checkpoint,
    eps: Annotated[
        float, typer.Option(help="Radius of the ball around each image; pixels are in [0, 1].")
    ],
    norm: Annotated[str, typer.Option(help="Norm of the ball: linf or l2.")] = "linf",
    attacks: Annotated[
        str, typer.Option(help="standard, or names with commas: pgd,apgd-t,square,pixle, ...")
    ] = "standard",
    images: Annotated[
        int, typer.Option(min=1, help="Number of test images, the first ones.")
    ] = 1000,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the steps and queries.")
    ] = False,
    checks: Annotated[bool, typer.Option("--checks/--no-checks")] = True,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of random starts.")] = 0,
    batch_size: Annotated[int, typer.Option(min=1, help="Images at a time.")] = 250,
    data: Data = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of results (default: beside the network).")
    ] = None,
    device: Device = "cpu",
    debug: Debug = False,
) -> None:
    """Attack a trained or converted network: robust accuracy under each attack, certified accuracy
    and checks for gradient masking; as text, JSON and a figure."""
    from ibnn.lab.attacks import evaluate, suite
    from ibnn.lab.attacks.evaluation_figure import save
    from ibnn.lab.progress import Steps
    from ibnn.lab.training import choose_device

    try:
        chosen = suite(attacks, eps, norm, quick)  # type: ignore[arg-type]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    refuse_large("--eps", eps, norm)
    place = choose_device(device)
    opened = open_checkpoint(checkpoint)
    chosen = _applicable(chosen, opened.network)
    x, y = _images(opened.config, data, images)
    where = prepare_folder(out or _place(checkpoint) / _name(command))
    network = opened.network.to(place)
    x, y = x.to(place, next(network.parameters()).dtype), y.to(place)
    with stoppable(), Steps() as steps:
        steps.say(_expected(network, x, chosen, checks, batch_size))

        def tell(what: str, done: int, total: int) -> None:
            steps(done, total, what)

        found = evaluate(
            network,
            x,
            y,
            eps=eps,
            norm=norm,  # type: ignore[arg-type]
            attacks=chosen,
            checks=checks,
            seed=seed,
            batch_size=batch_size,
            progress=tell,
        )
    written = save(found, where)
    typer.echo(f"{opened.title()}\n\n{found.text()}")
    for path in written:
        typer.echo(path)


def _place(checkpoint: Path) -> Path:
    """Beside the network: in its run's folder, or in one named after its file."""
    from ibnn.lab.training.network_file import is_checkpoint

    if checkpoint.is_dir():
        return checkpoint / "attacks"
    if is_checkpoint(checkpoint):
        return checkpoint.parent / "attacks"
    return checkpoint.with_suffix("").with_name(f"{checkpoint.stem}-attacks")


def _name(command: typer.Context) -> str:
    """The ball and whatever was chosen: no evaluation takes the place of another one."""
    chosen, usual = command.params, {param.name: param.default for param in command.command.params}
    words = {
        "attacks": str(chosen["attacks"]).replace(",", "+"),
        "images": f"{chosen['images']}-images",
        "quick": "quick",
        "checks": "no-checks",
        "seed": f"seed-{chosen['seed']}",
    }
    other = [word for name, word in words.items() if chosen[name] != usual[name]]
    return "-".join([f"{chosen['norm']}-{chosen['eps']:g}", *other])


def _applicable(attacks: Any, network: Any) -> Any:
    """Without the attacks that need implicit layers, where there are none; they are named."""
    from ibnn.lab.attacks.evaluate import applicable

    try:
        kept = applicable(network, attacks)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if len(kept) < len(attacks):
        names = ", ".join(attack.name for attack in attacks if attack not in kept)
        typer.echo(f"left out, for networks with implicit layers: {names}")
    return kept


def _expected(network: Any, x: Any, attacks: Any, checks: bool, batch_size: int) -> str:
    """How long it will take, from the passes there can be and the time of one here.

    What an attack computes beside the network is not counted: little, but for tiny networks.
    """
    import time

    import torch

    from ibnn.lab.attacks.evaluate import passes
    from ibnn.lab.progress import duration

    batch, times = x[:batch_size], []
    with torch.no_grad():
        for _ in range(3):  # the first one compiles, allocates and caches
            clock = time.perf_counter()
            network(batch)
            times.append(time.perf_counter() - clock)
    seconds = passes(network, x, attacks, checks) * min(times) / len(batch)
    what = f"{len(attacks)} attack{'s' * (len(attacks) > 1)}{' and the checks' if checks else ''}"
    return (
        f"{what} on {len(x)} images: about "
        f"{duration(max(1.0, seconds))} in the network, less if images are broken early"
    )


def _images(config: Any, data_root: Path | None, count: int) -> tuple[Any, Any]:
    """The first images the run was validated on, in [0, 1]."""
    from ibnn.lab import data
    from ibnn.lab.training import examples

    split = examples(config, data_root)
    if split.is_text:
        raise typer.BadParameter(f"{config.dataset} is text: attacks move images in [0, 1]")
    if len(split.image_shape) != 3:
        raise typer.BadParameter(
            f"{config.dataset} has points (shape {split.image_shape}), expected images in [0, 1]"
        )
    (batch,) = data.batches(split.x_test[:count], split.y_test[:count], count)
    return batch
