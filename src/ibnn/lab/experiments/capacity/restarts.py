"""Many restarts of one small network at once: Adam, one-cycle learning rate, small batches.

The question is what the network can represent, so luck must not decide: every restart has weights
of its own, all of them see the same batches, and nothing but the training points chooses among
them. A restart is a `Perceptron`: its statistics of batch norm are, in the end, those of all
training points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

import ibnn
from ibnn.lab.data import Dataset
from ibnn.lab.training import RunConfig, build_network
from ibnn.lab.training.seeds import generator

STEPS = 1500
BATCH = 100
RATE = 0.05  # the highest of the cycle
# First hidden weights in units of torch's: the lines where units switch on then lie all over the
# square. With 1 fewer restarts came near the best in scratch trials, for both neurons.
SPREAD = 4.0
EPS = 1e-5  # of batch norm


@dataclass(frozen=True)
class Restarts:
    """The fitted networks: training and validation accuracy and state dict of each."""

    train: list[float]
    validation: list[float]
    weights: list[dict[str, Tensor]]

    def ranked(self) -> list[int]:
        """The networks by training accuracy, best first."""
        return sorted(range(len(self.train)), key=lambda i: (-self.train[i], i))


def fit(config: RunConfig, points: Dataset, restarts: int, steps: int = STEPS) -> Restarts:
    """Train `restarts` networks of the config's shape and neuron, seeds from the config's on."""
    x, y = points.x_train.flatten(1).float(), points.y_train.float()
    networks = [
        build_network(
            config.replace(seed=config.seed + number, dtype="float32", initialisation="torch"),
            points.image_shape,
            points.classes,
        ).state_dict()
        for number in range(restarts)
    ]
    for network in networks:
        network["hidden.weight"] *= SPREAD
    ensemble = _Ensemble(config, networks)
    optimizer = torch.optim.Adam(ensemble.learnt.values(), lr=RATE)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    random = generator(config.seed, "restarts")
    for _ in range(steps):
        chosen = torch.randint(len(x), (min(BATCH, len(x)),), generator=random)
        logits, _ = ensemble(x[chosen])
        target = y[chosen, None].expand_as(logits)
        # the sum over networks: each sees its own gradient only
        loss = F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(0).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cycle.step()
    with torch.no_grad():
        logits, statistics = ensemble(x)
        test = ensemble(points.x_test.flatten(1).float(), statistics)[0]
    return Restarts(
        _accuracy(logits, points.y_train),
        _accuracy(test, points.y_test),
        [ensemble.state(number, statistics, networks[number]) for number in range(restarts)],
    )


Statistics = tuple[Tensor, Tensor]  # mean and variance of every unit of every network


class _Ensemble:
    """Perceptrons of one shape, stacked along the first dim of every parameter."""

    def __init__(self, config: RunConfig, networks: Sequence[dict[str, Tensor]]):
        lam = config.lam[0] if isinstance(config.lam, tuple) else config.lam
        self._lam = lam if config.neuron == "implicit" else 0.0
        self._slope = config.slope
        names = ("hidden.weight", "hidden.bias", "norm.weight", "norm.bias", "head.weight")
        self.learnt = {
            name: torch.stack([network[name] for network in networks]).requires_grad_()
            for name in (*names, "head.bias")
        }

    def __call__(
        self, x: Tensor, statistics: Statistics | None = None
    ) -> tuple[Tensor, Statistics]:
        """Logits (points, networks); batch norm with the statistics given, or those of `x`."""
        learnt = self.learnt
        units = torch.einsum("nd,rhd->nrh", x, learnt["hidden.weight"]) + learnt["hidden.bias"]
        if self._lam:
            units = ibnn.implicit_bias(units, self._lam, self._slope)
        units = torch.relu(units)
        if statistics is None:
            mean = units.mean(0)
            statistics = mean, (units - mean).square().mean(0)
        mean, variance = statistics
        units = (units - mean) * (variance + EPS).rsqrt()
        units = units * learnt["norm.weight"] + learnt["norm.bias"]
        logits = (units * learnt["head.weight"].squeeze(1)).sum(-1)
        return logits + learnt["head.bias"].squeeze(1), statistics

    def state(
        self, number: int, statistics: Statistics, first: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """The state dict of one network, as its `Perceptron` loads it."""
        state = {name: value[number].detach().clone() for name, value in self.learnt.items()}
        state["norm.running_mean"] = statistics[0][number].clone()
        state["norm.running_var"] = statistics[1][number].clone()
        return {**first, **state}


def _accuracy(logits: Tensor, labels: Tensor) -> list[float]:
    right = (logits > 0) == (labels[:, None] > 0)
    return [float(value) for value in right.double().mean(0)]
