"""Does a network memorize wrong labels, and does curvature detect them?"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ibnn.lab.data import Dataset
from ibnn.lab.theory_checks.memorization.curvature import curvature
from ibnn.lab.theory_checks.one_hidden import OneHidden, binary_task, squared_error, train
from ibnn.lab.training.seeds import generator

WRONG = 0.2  # fraction of the training labels that are wrong
UNITS = 64
TESTED = 500  # test examples


@dataclass(frozen=True)
class NoisyTraining:
    """One network trained on partly wrong labels. lam None is the standard neuron."""

    lam: float | None
    seed: int
    memorized: float  # fraction of the wrong labels it predicts
    accuracy: float  # on test examples with right labels
    curvature: float  # mean over the training examples
    auc: float  # under the ROC curve: chance that a wrong label has the higher curvature


def train_on_wrong_labels(
    dataset: Dataset, lam: float | None, slope: float, seed: int, examples: int, steps: int
) -> NoisyTraining:
    """Train one hidden layer on examples of which a fifth carry the wrong label."""
    x, truth = binary_task(dataset, examples, seed)
    wrong = torch.rand(len(x), generator=generator(seed, "wrong labels")) < WRONG
    y = torch.where(wrong, 1 - truth, truth)
    network = OneHidden(x[0].numel(), UNITS, lam, slope, "hardtanh", seed)
    train(network, x, y, steps)
    x_test, y_test = binary_task(dataset, TESTED, seed, "test")
    network, x, y = network.double(), x.double(), y.double()
    with torch.no_grad():
        learned = (network(x) > 0) == (y > 0.5)
        right = (network(x_test.double()) > 0) == (y_test > 0.5)
    values = curvature(
        lambda a, b: squared_error(network(a), b), x, y, generator(seed, "signs"), directions=5
    )
    return NoisyTraining(
        lam,
        seed,
        float(learned[wrong].double().mean()),
        float(right.double().mean()),
        float(values.mean()),
        roc_auc(values, wrong),
    )


def roc_auc(scores: Tensor, positive: Tensor) -> float:
    """Chance that a positive example has the higher score than a negative one (ties count half).

    >>> roc_auc(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([True, False, False]))
    1.0
    """
    above, below = scores[positive], scores[~positive]
    wins = (above[:, None] > below).double() + (above[:, None] == below).double() / 2
    return float(wins.mean()) if wins.numel() else float("nan")
