"""`ibnn train`: one network on one dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibnn.lab.cli.choices import Config, Data, Log, OtherDevice, prepare_folder, read_settings
from ibnn.lab.cli.errors import Debug, stoppable

if TYPE_CHECKING:
    from ibnn.lab.training import RunConfig

_PLACES = ("out", "data", "device", "log")


def train(
    command: typer.Context,
    dataset: Annotated[
        str | None, typer.Option(help="A name from `ibnn data list`, or an .npz or .txt file.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="ucn, resnet20, vit (images), gpt (text), mlp or perceptron."),
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Blocks of a ucn.")] = None,
    channels: Annotated[int | None, typer.Option(help="Of each block of a ucn.")] = None,
    hidden: Annotated[int | None, typer.Option(help="Units of a perceptron.")] = None,
    width: Annotated[
        int | None, typer.Option(help="Channels of a resnet20, features of vit and gpt, ...")
    ] = None,
    depth: Annotated[int | None, typer.Option(help="Blocks of vit and gpt, layers of mlp.")] = None,
    heads: Annotated[int | None, typer.Option(help="Of vit and gpt.")] = None,
    patch: Annotated[int | None, typer.Option(help="Side of a patch of a vit.")] = None,
    context: Annotated[int | None, typer.Option(help="Characters a gpt sees at once.")] = None,
    place: Annotated[
        str | None,
        typer.Option(help="Of the neuron in vit and gpt: feed-forward, attention, both."),
    ] = None,
    neuron: Annotated[
        str | None, typer.Option(help="standard, implicit, or a control: mean-field, ...")
    ] = None,
    lam: Annotated[
        str | None, typer.Option(help="Where lam starts, or stays; one per layer: 0.1,0.05.")
    ] = None,
    learn_lam: Annotated[bool | None, typer.Option("--learn-lam/--fix-lam")] = None,
    slope: Annotated[float | None, typer.Option(help="Of sigma at 0: the paper's p.")] = None,
    learn_slope: Annotated[bool | None, typer.Option("--learn-slope/--fix-slope")] = None,
    bounded: Annotated[
        bool | None,
        typer.Option("--bounded/--unbounded", help="Keep a learnt lam below the threshold."),
    ] = None,
    coupling: Annotated[str | None, typer.Option(help="space, channels, layer or window.")] = None,
    window: Annotated[int | None, typer.Option(help="Side of the window.")] = None,
    window_profile: Annotated[str | None, typer.Option(help="box or gaussian.")] = None,
    window_std: Annotated[float | None, typer.Option(help="Of a gaussian window.")] = None,
    sigma: Annotated[str | None, typer.Option(help="tanh, hardtanh, arctan, erf.")] = None,
    solver: Annotated[str | None, typer.Option(help="newton, gradient, picard, ...")] = None,
    adjoint: Annotated[str | None, typer.Option(help="implicit, unrolled or jfb.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights and data order.")] = None,
    epochs: Annotated[int | None, typer.Option(help="After the warm-up.")] = None,
    warmup_epochs: Annotated[int | None, typer.Option(help="With standard neurons.")] = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    lr_low: Annotated[float | None, typer.Option(help="Learning rate at both ends.")] = None,
    lr_high: Annotated[float | None, typer.Option(help="Learning rate in the middle.")] = None,
    momentum: Annotated[float | None, typer.Option()] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd or adamw.")] = None,
    schedule: Annotated[str | None, typer.Option(help="triangle or cosine.")] = None,
    lr_warmup: Annotated[
        float | None, typer.Option(help="Fraction of a cosine in which the rate rises.")
    ] = None,
    augmentation: Annotated[str | None, typer.Option(help="none or crop-flip.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of the optimizer.")] = None,
    clip: Annotated[
        float | None, typer.Option(help="Largest norm of the gradient; 0 leaves it alone.")
    ] = None,
    initialisation: Annotated[str | None, typer.Option(help="paper or torch.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 or float64.")] = None,
    share: Annotated[
        float | None, typer.Option("--fraction", "--share", help="Of the training data.")
    ] = None,
    label_noise: Annotated[float | None, typer.Option(help="Fraction of wrong labels.")] = None,
    hold_out: Annotated[
        float | None, typer.Option(help="Fraction of the training data to validate on.")
    ] = None,
    n_train: Annotated[int | None, typer.Option(help="Only the first examples.")] = None,
    n_test: Annotated[int | None, typer.Option(help="Only the first examples.")] = None,
    validate_every: Annotated[int | None, typer.Option(help="Epochs.")] = None,
    adversarial_eps: Annotated[
        float | None, typer.Option(help="Train on images moved this far against the network.")
    ] = None,
    adversarial_steps: Annotated[
        int | None, typer.Option(help="Gradient steps of that attack (10).")
    ] = None,
    adversarial_norm: Annotated[str | None, typer.Option(help="linf or l2.")] = None,
    autocast: Annotated[
        str | None, typer.Option(help="bfloat16: mixed precision while training.")
    ] = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="Folder of runs.")] = None,
    device: OtherDevice = None,
    log: Log = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Train one network on one dataset; killed or stopped, the same command goes on.

    resnet20, vit, gpt and mlp come with the optimizer, schedule and augmentation people use for
    them; any option given here comes first.
    """
    from dataclasses import fields

    from ibnn.lab.models import network_kind, network_names
    from ibnn.lab.training import RunConfig, with_checksum

    known = [field.name for field in fields(RunConfig)]
    stored = read_settings(config, (*known, *_PLACES))
    given = {
        name: value
        for name, value in command.params.items()
        if value is not None and name in (*known, *_PLACES)
    }
    if "lam" in given:
        given["lam"] = _numbers(given["lam"])
    chosen: dict[str, Any] = stored | given
    if chosen.get("network") in network_names():
        chosen = {**network_kind(chosen["network"]).recipe, **chosen}
    if chosen.get("clip") == 0:
        chosen["clip"] = None
    if "dataset" not in chosen:
        raise typer.BadParameter("--dataset is missing; see `ibnn data list`")
    root = Path(chosen.pop("out", "results"))
    data_root = chosen.pop("data", None)
    where, told = chosen.pop("device", "cpu"), chosen.pop("log", None) or []
    _train(with_checksum(RunConfig.from_dict(chosen)), root, data_root, where, told)


def _train(
    config: RunConfig, root: Path, data_root: Path | None, device: str, log: list[str]
) -> None:
    from ibnn.lab.training import Metrics, RunFolder, choose_device, load_dataset, make_listeners
    from ibnn.lab.training import train as train_run
    from ibnn.lab.training.device import describe
    from ibnn.lab.training.distributed import launched, own_device

    group, place = launched(), choose_device(own_device(device))
    listeners = make_listeners(log)
    dataset = load_dataset(config, data_root)
    folder = RunFolder(root, config.identity())

    def say(text: str) -> None:
        if group.leads:  # of several processes one speaks for all
            typer.echo(text)

    if group.leads:
        prepare_folder(root)
    say(f"{config.title()} in {folder.path}")
    before = folder.latest()
    if before is not None and before.devices and before.devices[-1] != describe(place):
        say(f"goes on on {describe(place)}; until now it was trained on {before.devices[-1]}")

    pieces = "pieces" if dataset.is_text else "images"

    def tell(metrics: Metrics) -> None:
        say(f"{metrics}, {metrics.images_per_second:,.0f} {pieces}/s")

    with stoppable():
        result = train_run(
            config, root, dataset=dataset, device=place, on_epoch=tell, listeners=listeners
        )
    say(
        f"best {result.best} in epoch {result.best_epoch}, last {result.last}, "
        f"{result.parameters:,} parameters"
    )


def _numbers(text: str) -> float | list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"--lam is {text!r}, expected a number or several with commas"
        ) from None
    return values[0] if len(values) == 1 else values
