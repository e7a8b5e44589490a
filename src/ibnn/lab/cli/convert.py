"""`ibnn convert`: a trained standard network becomes an implicit one, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibnn.lab.cli.choices import (
    Data,
    open_checkpoint,
    prepare_folder,
    refuse_folder,
    refuse_given,
)
from ibnn.lab.cli.errors import Debug

if TYPE_CHECKING:
    from ibnn.lab.training import OpenedNetwork


def convert(
    command: typer.Context,
    checkpoint: Annotated[Path, typer.Argument(help="A run's folder, or a network file.")],
    out: Annotated[Path, typer.Option(help="The network file to write (.safetensors).")],
    lam: Annotated[float, typer.Option(help="lam of every converted layer.")] = -0.1,
    slope: Annotated[float, typer.Option(help="Slope of sigma at 0, the paper's p.")] = 10.0,
    sigma: Annotated[str, typer.Option(help="Sigma: tanh, hardtanh, arctan or erf.")] = "tanh",
    coupling: Annotated[
        str, typer.Option(help="Coupling of convolutions: space, channels or layer.")
    ] = "space",
    standard: Annotated[
        bool, typer.Option("--standard", help="The reverse: remove every implicit bias.")
    ] = False,
    recalibrate: Annotated[
        int, typer.Option(help="Training images to recompute batch norms on; 0: keep them.")
    ] = 0,
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Convert a trained standard network to an implicit one (same weights), or the reverse.

    The file that is written is read by `ibnn attack`, `ibnn analyze` and `ibnn runs show`.
    """
    from ibnn.lab.training import load_dataset
    from ibnn.lab.training.network_file import write_network

    if standard:
        options = ("lam", "slope", "sigma", "coupling")
        refuse_given(command, dict.fromkeys(options, "with --standard"))
    if recalibrate < 0:
        raise typer.BadParameter(f"--recalibrate is {recalibrate}, expected 0 or more")
    opened = open_checkpoint(checkpoint)
    prepare_folder(out.absolute().parent)
    _refuse_other_files(out)
    if standard:
        made = opened.standard()
    else:
        back = "--standard makes it a standard network"
        made = converted(opened, lam, back, slope=slope, sigma=sigma, coupling=coupling)
    if recalibrate:
        from ibnn.conversion.recalibrate import recalibrate_batch_norms
        from ibnn.lab import data as datasets

        dataset = load_dataset(opened.config, data)
        dtype = next(made.network.parameters()).dtype
        parts = datasets.batches(dataset.x_train[:recalibrate], dataset.y_train[:recalibrate], 128)
        recalibrate_batch_norms(made.network, (x.to(dtype) for x, _ in parts))
    write_network(out, made)
    typer.echo(f"{made.title()}: {out}")


def _refuse_other_files(out: Path) -> None:
    """A network file may be written again; a run's checkpoint, or anything else, would be lost."""
    from ibnn.lab.training import CheckpointError
    from ibnn.lab.training.network_file import is_checkpoint, read_network

    refuse_folder(out)
    if not out.exists():
        return
    what = "the checkpoint of a run"
    if not is_checkpoint(out):
        try:
            read_network(out)
            return
        except CheckpointError:
            what = "there and no network file"
    raise typer.BadParameter(f"--out: {out} is {what}, expected a new name")


def converted(opened: OpenedNetwork, lam: float, hint: str, **options: Any) -> OpenedNetwork:
    """An opened network with an implicit bias in every layer but the head.

    `hint` ends the error message for a network that is implicit already.
    """
    from ibnn.lab.models import implicit_layers

    there = implicit_layers(opened.network)
    if there:
        lams = ", ".join(f"{float(layer.effective_lam.detach().mean()):.3g}" for layer in there)
        raise typer.BadParameter(
            f"nothing to convert: {opened.title()} is already implicit (lam {lams}); {hint}"
        )
    try:
        return opened.convert(lam, **options)
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
