"""Does a network learn wrong labels by heart, and does curvature find them?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ibnn.lab.analysis.curvature import curvature
from ibnn.lab.analysis.one_hidden import OneHidden, squared_error, train, two_classes
from ibnn.lab.data import Dataset
from ibnn.lab.training.seeds import generator

SHARE = 0.2  # of the training labels are wrong
UNITS = 64


@dataclass(frozen=True)
class Memory:
    """One network trained on partly wrong labels. lam None is the standard neuron."""

    lam: float | None
    seed: int
    memorised: float  # share of the wrong labels it gives back
    accuracy: float  # on test examples with right labels
    curvature: float  # mean over the training examples
    area: float  # under the ROC curve: chance that a wrong label has the higher curvature


def memory(
    dataset: Dataset, lam: float | None, slope: float, seed: int, examples: int, steps: int
) -> Memory:
    """Train one hidden layer on examples of which a fifth carry the wrong label."""
    x, truth = two_classes(dataset, examples, seed)
    wrong = torch.rand(len(x), generator=generator(seed, "wrong labels")) < SHARE
    y = torch.where(wrong, 1 - truth, truth)
    network = OneHidden(x[0].numel(), UNITS, lam, slope, "hardtanh", seed)
    train(network, x, y, steps)
    x_test, y_test = two_classes(dataset, 500, seed, "test")
    network, x, y = network.double(), x.double(), y.double()
    with torch.no_grad():
        learnt = (network(x) > 0) == (y > 0.5)
        right = (network(x_test.double()) > 0) == (y_test > 0.5)
    values = curvature(
        lambda a, b: squared_error(network(a), b), x, y, generator(seed, "signs"), directions=5
    )
    return Memory(
        lam,
        seed,
        float(learnt[wrong].double().mean()),
        float(right.double().mean()),
        float(values.mean()),
        area(values, wrong),
    )


def area(scores: Tensor, positive: Tensor) -> float:
    """Chance that a positive example has the higher score than a negative one (ties count half).

    >>> area(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([True, False, False]))
    1.0
    """
    above, below = scores[positive], scores[~positive]
    wins = (above[:, None] > below).double() + (above[:, None] == below).double() / 2
    return float(wins.mean()) if wins.numel() else float("nan")
