"""The paper's setting for transfer: one hidden layer without batch norm, a unit-norm head, two
classes that it separates; and the margin that is left when the neurons become implicit."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ibnn import theory
from ibnn.lab.data import Dataset, as_float
from ibnn.lab.theory_checks.one_hidden import HiddenLayer

STEPS, RATE, DECAY = 400, 0.05, 1e-4  # of Adam: enough for both tasks to be separated


@dataclass(frozen=True)
class Task:
    """Two classes of vectors, named."""

    name: str
    x: Tensor  # (examples, features), float64
    y: Tensor  # 0 or 1


@dataclass(frozen=True)
class Classifier:
    """s(x) = head . relu(F(weight x + bias)), with |head| = 1; a threshold moves no margin."""

    weight: Tensor
    bias: Tensor
    head: Tensor

    @property
    def units(self) -> int:
        """D."""
        return len(self.bias)

    def features(self, x: Tensor, lam: float) -> Tensor:
        """What the head sees."""
        return HiddenLayer(self.weight, self.bias, lam)(x)

    def margin(self, task: Task, lam: float) -> float:
        """min of class 1 less max of class 0, in score; negative where the classes overlap."""
        return margin_of(self.features(task.x, lam) @ self.head, task.y)


def margin_of(scores: Tensor, y: Tensor) -> float:
    return float(scores[y == 1].min() - scores[y == 0].max())


def one_against_one(dataset: Dataset, first: int, second: int) -> Task:
    """Two classes of a dataset's training images, flattened, in [0, 1]."""
    chosen = (dataset.y_train == first) | (dataset.y_train == second)
    x = as_float(dataset.x_train[chosen].flatten(1), torch.float64)
    return Task(dataset.name, x, (dataset.y_train[chosen] == second).long())


def train(task: Task, units: int, seed: int, steps: int = STEPS) -> Classifier:
    """A standard one-hidden-layer network by full-batch Adam on the logistic loss."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        bound = shape[-1] ** -0.5
        values = torch.rand(*shape, generator=generator, dtype=torch.float64)
        return ((2 * values - 1) * bound).requires_grad_()

    weight, head = drawn(units, task.x.shape[1]), drawn(units)
    bias, offset = drawn(units), torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias, head, offset], RATE, weight_decay=DECAY)
    target = task.y.double()
    for _ in range(steps):
        optimizer.zero_grad()
        scores = HiddenLayer(weight, bias)(task.x) @ head + offset
        torch.nn.functional.binary_cross_entropy_with_logits(scores, target).backward()
        optimizer.step()
    kept = head.detach()
    return Classifier(weight.detach(), bias.detach(), kept / kept.norm())


def widest_margin_head(features: Tensor, y: Tensor) -> Tensor:
    """The unit-norm head with the largest margin: a linear support vector machine, hard margin."""
    from sklearn.svm import SVC

    # its own scale, so that a penalty of 1e6 is hard whatever the features' size
    scale = float(features.std()) or 1.0
    machine: Any = SVC(kernel="linear", C=1e6).fit(features.numpy() / scale, y.numpy())
    head = torch.tensor(machine.coef_[0], dtype=torch.float64)
    return head / head.norm()


def margins(task: Task, classifier: Classifier, lam: float) -> dict[str, Any]:
    """One row: the margin kept by the old head and by a refitted one, and both bounds."""
    before = classifier.margin(task, 0.0)
    features = classifier.features(task.x, lam)
    head = widest_margin_head(features, task.y)
    return {
        "kind": "margin",
        "task": task.name,
        "units": classifier.units,
        "lam": lam,
        "margin_before": before,
        "margin_old_head": margin_of(features @ classifier.head, task.y),
        "margin_refitted": margin_of(features @ head, task.y),
        "bound_paper": theory.transferred_margin(before, lam, classifier.units),
        "bound_sharper": theory.sharper_margin(before, lam, classifier.units),
    }
