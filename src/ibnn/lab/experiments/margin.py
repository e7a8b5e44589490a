"""The paper's margin bound on a small network: one hidden layer, no batch norm, unit-norm head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.svm import SVC
from torch import Tensor, nn
from torch.nn import functional as F

import ibnn
from ibnn.lab import data

UNITS = 16
IMAGES = 500
STEPS = 200
RATE = 0.01


@dataclass(frozen=True)
class Classifier:
    """Score c . relu(y(x)) of two classes; c has length 1, its offset moves no margin."""

    hidden: nn.Linear
    direction: Tensor

    @torch.no_grad()
    def features(self, x: Tensor, lam: float) -> Tensor:
        """What the head sees once the hidden layer has an implicit bias; 0 leaves it standard."""
        layer = ibnn.convert(self.hidden, lam, skip_head=False) if lam else self.hidden
        return torch.relu(layer(x))


def margins(examples: data.Dataset, lambdas: Sequence[float], seed: int) -> dict[str, Any] | None:
    """The margin of a classifier of classes 0 and 1 before and after conversion, old and new head.

    None if one of the classes has no training example.
    """
    chosen = (examples.y_train < 2).nonzero().squeeze(1)[:IMAGES]
    x, y = next(data.batches(examples.x_train[chosen], examples.y_train[chosen], IMAGES))
    if len(set(y.tolist())) < 2:
        return None
    x = x.flatten(1).double()
    classifier = train(x, y, seed)
    points = []
    for lam in lambdas:
        features = classifier.features(x, lam)
        old = margin(features @ classifier.direction, y)
        # the largest margin of any head, hence no less than the old one's
        new = max(old, margin(features @ widest(features, y), y))
        points.append({"lam": lam, "old": old, "new": new})
    standard = margin(classifier.features(x, 0.0) @ classifier.direction, y)
    return {"units": UNITS, "images": len(x), "standard": standard, "points": points}


def margin(scores: Tensor, y: Tensor) -> float:
    """The lowest score of class 1 minus the highest of class 0; negative if they overlap.

    >>> margin(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0, 0, 1]))
    2.0
    """
    return float(scores[y == 1].min() - scores[y == 0].max())


def train(x: Tensor, y: Tensor, seed: int) -> Classifier:
    """Full batches of Adam on the logistic loss, the head held at length 1."""
    generator = torch.Generator().manual_seed(seed)
    hidden, head, offset = _first_weights(x.shape[1], generator)
    optimizer = torch.optim.Adam([*hidden.parameters(), head, offset], lr=RATE)
    for _ in range(STEPS):
        scores = torch.relu(hidden(x)) @ F.normalize(head, dim=0) + offset
        loss = F.binary_cross_entropy_with_logits(scores, y.to(x.dtype))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return Classifier(hidden, F.normalize(head.detach(), dim=0))


def widest(features: Tensor, y: Tensor) -> Tensor:
    """The direction of length 1 with the largest margin: a support vector machine's."""
    machine = SVC(kernel="linear", C=1e4, max_iter=200_000)
    machine.fit(features.numpy(), y.numpy())
    direction = torch.tensor(machine.coef_[0], dtype=features.dtype)
    return F.normalize(direction, dim=0)


def _first_weights(
    inputs: int, generator: torch.Generator
) -> tuple[nn.Linear, nn.Parameter, nn.Parameter]:
    hidden = nn.utils.skip_init(nn.Linear, inputs, UNITS, dtype=torch.float64)
    bound = inputs**-0.5
    with torch.no_grad():
        hidden.weight.uniform_(-bound, bound, generator=generator)
        hidden.bias.uniform_(-bound, bound, generator=generator)
    head = torch.randn(UNITS, dtype=torch.float64, generator=generator)
    return hidden, nn.Parameter(head), nn.Parameter(torch.zeros((), dtype=torch.float64))
