"""One trained network converted in every way, and the margin bound of a small classifier."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab import data
from ibnn.lab.attacks import PGD
from ibnn.lab.data import Dataset
from ibnn.lab.theory_checks.transfer.margin import margins, one_against_one, train
from ibnn.lab.training.conversion import pick_penalty, refit_head
from ibnn.lab.training.validation import validate

LAMBDAS = (-1.0, -0.5, -0.2, -0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.08)
SLOPE = 10.0
OLD, RECALIBRATED, REFITTED = "old head", "batch norm recalibrated", "refitted head"
WAYS = (OLD, RECALIBRATED, REFITTED)
REFIT_IMAGES = 5000
RECALIBRATION_IMAGES = 1000
ATTACKED_IMAGES = 500
ATTACK_STEPS = 10
BATCH = 250
# of the small classifiers whose margins are looked at
MARGIN_UNITS = 16
MARGIN_IMAGES = 500
MARGIN_STEPS = 600


def conversions(network: nn.Module, examples: data.Dataset, eps: float) -> dict[str, Any]:
    """Accuracy of every conversion, clean and under an attack of size `eps`: one point for each lam
    and each way to treat what follows."""
    x, y = _first(examples.x_train, examples.y_train, REFIT_IMAGES)
    attacked = _first(examples.x_test, examples.y_test, ATTACKED_IMAGES)
    # one for all lam, or their heads could not be compared
    penalty = pick_penalty(network, x, y)
    points = [
        {
            "lam": lam,
            "way": way,
            "accuracy": validate(model, examples.x_test, examples.y_test, BATCH).accuracy,
            "attacked": attacked_accuracy(model, *attacked, eps),
        }
        for lam in LAMBDAS
        for way, model in converted(network, lam, x, y, penalty)
    ]
    return {
        "eps": eps,
        "attacked_images": len(attacked[0]),
        "refit_images": len(x),
        "refit_penalty": penalty,
        "preactivation_std": preactivation_std(network, attacked[0]),
        "points": points,
    }


def converted(
    network: nn.Module, lam: float, x: Tensor, y: Tensor, penalty: float
) -> Iterator[tuple[str, nn.Module]]:
    """The network with an implicit bias in every convolution, three ways."""
    yield OLD, ibnn.convert(network, lam, slope=SLOPE)
    yield (
        RECALIBRATED,
        ibnn.convert(network, lam, slope=SLOPE, recalibrate=x[:RECALIBRATION_IMAGES].split(BATCH)),
    )
    yield REFITTED, refit_head(ibnn.convert(network, lam, slope=SLOPE), x, y, penalty)


def attack_of(eps: float) -> PGD:
    """What every network is attacked with."""
    return PGD(eps, steps=ATTACK_STEPS)


def attacked_accuracy(model: nn.Module, x: Tensor, y: Tensor, eps: float) -> float:
    """The fraction of images right before and under white-box PGD; every model gets one seed."""
    found = attack_of(eps)(
        model, x, y, generator=torch.Generator().manual_seed(0), batch_size=BATCH
    )
    return 1 - float(found.success.double().mean())


@torch.no_grad()
def preactivation_std(network: nn.Module, x: Tensor) -> list[float]:
    """How far the units of each layer are spread within a channel of one image, the quadratic
    mean: what lam and slope have to be compared with."""
    seen: list[float] = []

    def look(layer: nn.Module, args: tuple[Tensor, ...], y: Tensor) -> None:
        seen.append(float(y.flatten(2).var(-1, unbiased=False).mean().sqrt()))

    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    handles = [layer.register_forward_hook(look) for layer in convolutions]
    try:
        network(x)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _first(x: Tensor, y: Tensor, count: int) -> tuple[Tensor, Tensor]:
    return next(data.batches(x[:count], y[:count], count))


def margin_curve(examples: Dataset, lambdas: Sequence[float], seed: int) -> dict[str, Any] | None:
    """The margin of a small classifier of classes 0 and 1 after conversion, for every lam.

    None where the theorem says nothing: a class without training images, or two that the
    classifier does not separate.
    """
    task = one_against_one(examples, 0, 1)
    task = replace(task, x=task.x[:MARGIN_IMAGES], y=task.y[:MARGIN_IMAGES])
    if len(set(task.y.tolist())) < 2:
        return None
    classifier = train(task, MARGIN_UNITS, seed, MARGIN_STEPS)
    standard = classifier.margin(task, 0.0)
    if standard <= 0:
        return None
    points = [margins(task, classifier, lam) for lam in lambdas]
    return {"units": MARGIN_UNITS, "images": len(task.x), "standard": standard, "points": points}
