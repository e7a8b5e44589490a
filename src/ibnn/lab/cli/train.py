"""`ibnn train`: one network on one dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibnn.lab.cli.choices import (
    Config,
    Data,
    Log,
    OtherDevice,
    prepare_folder,
    read_settings,
    refuse_given,
    refuse_large,
    typed,
)
from ibnn.lab.cli.errors import Debug, stoppable

if TYPE_CHECKING:
    from ibnn.lab.training import RunConfig

_PLACES: dict[str, type] = {"out": str, "data": str, "device": str, "log": list}


def train(
    command: typer.Context,
    dataset: Annotated[
        str | None, typer.Option(help="A name from `ibnn data list`, or an .npz or .txt file.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="ucn, resnet20, vit (images), gpt (text), mlp or perceptron."),
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Blocks of a ucn: the L of UCN(L,C).")] = None,
    channels: Annotated[
        int | None, typer.Option(help="Channels of each block of a ucn: C.")
    ] = None,
    hidden: Annotated[int | None, typer.Option(help="Units of a perceptron.")] = None,
    width: Annotated[
        int | None, typer.Option(help="Channels of a resnet20, features of vit and gpt, ...")
    ] = None,
    depth: Annotated[int | None, typer.Option(help="Blocks of vit and gpt, layers of mlp.")] = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads of vit and gpt.")] = None,
    patch: Annotated[int | None, typer.Option(help="Side of a patch of a vit.")] = None,
    context: Annotated[int | None, typer.Option(help="Characters a gpt sees at once.")] = None,
    place: Annotated[
        str | None,
        typer.Option(help="Where vit and gpt use the neuron: feed-forward, attention, both."),
    ] = None,
    neuron: Annotated[
        str | None, typer.Option(help="standard, implicit, or a control: mean-field, ...")
    ] = None,
    lam: Annotated[
        str | None, typer.Option(help="Initial (or fixed) lam; or one per layer: 0.1,0.05.")
    ] = None,
    learn_lam: Annotated[bool | None, typer.Option("--learn-lam/--fix-lam")] = None,
    slope: Annotated[float | None, typer.Option(help="Slope of sigma at 0, the paper's p.")] = None,
    learn_slope: Annotated[bool | None, typer.Option("--learn-slope/--fix-slope")] = None,
    bounded: Annotated[
        bool | None,
        typer.Option("--bounded/--unbounded", help="Keep a learnt lam below the threshold."),
    ] = None,
    coupling: Annotated[
        str | None, typer.Option(help="Coupling: space, channels, layer or window.")
    ] = None,
    window: Annotated[int | None, typer.Option(help="Side of the window.")] = None,
    window_profile: Annotated[
        str | None, typer.Option(help="Window weights: box or gaussian.")
    ] = None,
    window_std: Annotated[
        float | None, typer.Option(help="Standard deviation of a gaussian window.")
    ] = None,
    sigma: Annotated[str | None, typer.Option(help="Sigma: tanh, hardtanh, arctan or erf.")] = None,
    solver: Annotated[
        str | None, typer.Option(help="Solver: newton, gradient, picard, ...")
    ] = None,
    adjoint: Annotated[
        str | None, typer.Option(help="Gradients: implicit, unrolled or jfb.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights and data order.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs after the warm-up.")] = None,
    warmup_epochs: Annotated[
        int | None, typer.Option(help="Warm-up epochs with standard neurons.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Examples of a step.")] = None,
    lr_low: Annotated[
        float | None, typer.Option(help="Learning rate at both ends of training.")
    ] = None,
    lr_high: Annotated[float | None, typer.Option(help="Largest learning rate.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Momentum of sgd.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="Optimizer: sgd or adamw.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Learning rate: triangle or cosine.")] = None,
    lr_warmup: Annotated[
        float | None, typer.Option(help="Fraction of a cosine schedule that is warm-up.")
    ] = None,
    augmentation: Annotated[
        str | None, typer.Option(help="Augmentation: none or crop-flip.")
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="Weight decay of the optimizer.")
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Largest norm of the gradient; 0: no clipping.")
    ] = None,
    initialisation: Annotated[
        str | None, typer.Option(help="Initial weights: paper or torch.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 or float64.")] = None,
    share: Annotated[
        float | None, typer.Option("--fraction", "--share", help="Fraction of the training data.")
    ] = None,
    label_noise: Annotated[float | None, typer.Option(help="Fraction of wrong labels.")] = None,
    hold_out: Annotated[
        float | None, typer.Option(help="Fraction of the training data to validate on.")
    ] = None,
    n_train: Annotated[int | None, typer.Option(help="Use only the first examples.")] = None,
    n_test: Annotated[int | None, typer.Option(help="Use only the first examples.")] = None,
    validate_every: Annotated[int | None, typer.Option(help="Epochs between validations.")] = None,
    adversarial_eps: Annotated[
        float | None, typer.Option(help="Adversarial training: radius of the PGD attack.")
    ] = None,
    adversarial_steps: Annotated[
        int | None, typer.Option(help="Steps of that attack (default: 10).")
    ] = None,
    adversarial_norm: Annotated[
        str | None, typer.Option(help="Norm of that attack: linf or l2.")
    ] = None,
    autocast: Annotated[
        str | None, typer.Option(help="Mixed precision while training: bfloat16.")
    ] = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="Folder of runs.")] = None,
    device: OtherDevice = None,
    log: Log = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Train one network on one dataset; the same command resumes a run that was stopped.

    resnet20, vit, gpt and mlp have the optimizer, schedule and augmentation that are usual for
    them; options given here override these.
    """
    from dataclasses import fields

    from ibnn.lab.models import network_kind, network_names
    from ibnn.lab.training import RunConfig, with_checksum

    known = [field.name for field in fields(RunConfig)]
    stored = read_settings(config, (*known, *_PLACES))
    typed(stored, _PLACES, config)
    given = {
        name: value
        for name, value in command.params.items()
        if value not in (None, (), []) and name in (*known, *_PLACES)
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
    run = with_checksum(RunConfig.from_dict(chosen))
    refuse_large("--adversarial-eps", run.adversarial_eps, run.adversarial_norm)
    refuse_given(command, {name: f"here: {why}" for name, why in run.without_effect().items()})
    _train(run, root, data_root, where, told)


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
        say(f"resuming on {describe(place)}; trained on {before.devices[-1]} before")

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
