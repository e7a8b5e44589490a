"""Controls without any knowledge of the model: uniform noise, and random search.

What noise alone breaks is no merit of an attack; a model that random search beats and PGD does
not has hidden its gradients.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.best import Best
from ibnn.lab.attacks.losses import margin
from ibnn.lab.attacks.settings import check_settings
from ibnn.lab.training.ball import normal, project, random_point, steepest, uniform


@dataclass(frozen=True)
class Noise(Attack):
    """Points drawn uniformly from the ball; wrong if the model gets one of them wrong."""

    eps: float
    draws: int = 1

    kind: ClassVar[str] = "noise"

    def __post_init__(self) -> None:
        check_settings(self, "draws")

    def passes(self, classes: int) -> int:
        return self.draws

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        best = Best(x)
        for _ in range(self.draws):
            images = random_point(self.norm, x, self.eps, generator)
            rows = best.rows()
            best.ask(model, y, rows, images[rows], margin)
        return best.result(self.norm)


@dataclass(frozen=True)
class RandomSearch(Attack):
    """Changes a fraction of the pixels of the best point so far, keeps what lowers the margin.

    In l_inf the pixels get a random corner of the ball, in l_2 a step in a random direction.
    """

    eps: float
    queries: int = 200
    fraction: float = 0.1

    kind: ClassVar[str] = "random-search"

    def __post_init__(self) -> None:
        check_settings(self, "queries")

    def passes(self, classes: int) -> int:
        return self.queries

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        best = Best(x)
        for query in range(self.queries):
            at = uniform(x, generator) < (self.fraction if query else 1.0)
            images = torch.where(at, self._drawn(x, best.images, generator), best.images)
            images = project(self.norm, x, images, self.eps)
            rows = best.rows()
            best.ask(model, y, rows, images[rows], margin)
        return best.result(self.norm)

    def _drawn(self, x: Tensor, images: Tensor, generator: torch.Generator) -> Tensor:
        if self.norm == "linf":
            return x + self.eps * uniform(x, generator, -1, 1).sign()
        return images + self.eps * steepest("l2", normal(x, generator))
