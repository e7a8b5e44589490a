"""Projected gradient descent (Madry et al. 2018), in l_inf and l_2; one step of it is FGSM."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.best import Best
from ibnn.lab.attacks.losses import LOSSES, Climb, LossName, climb
from ibnn.lab.attacks.settings import check_one_of, check_settings
from ibnn.lab.training.ball import project, random_point, steepest


@dataclass(frozen=True)
class PGD(Attack):
    """`x <- project(x + alpha * steepest(gradient of the loss))`, a few times.

    Every iterate counts, not only the last: with the same seed more steps (of the same alpha) or
    more restarts never find fewer images.

    Args:
        alpha: length of a step; eps / 4 when absent.
        random_start: begin at a random point of the ball; without it restarts repeat each other.
        early_stop: leave an image alone once it is wrong. Without it every step is taken, and
            the wrong image of highest loss is returned: what a transfer attack needs.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    >>> found = PGD(1.0)(model, torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 0]))
    >>> found.images.shape, found.success.dtype
    (torch.Size([3, 1, 2, 2]), torch.bool)
    """

    eps: float
    steps: int = 10
    alpha: float | None = None
    loss: LossName = "ce"
    random_start: bool = True
    restarts: int = 1
    early_stop: bool = True

    uses_gradients: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "steps", "restarts")
        check_one_of("loss", self.loss, LOSSES)
        if self.alpha is not None and not self.alpha > 0:
            raise ValueError(f"alpha is {self.alpha}, expected a step length above 0")

    @property
    def name(self) -> str:
        loss = "" if self.loss == "ce" else f"-{self.loss}"
        kind = "fgsm" if self.steps == 1 and not self.random_start else "pgd"
        return f"{kind}{loss}-{self.norm}"

    def passes(self, classes: int) -> int:
        return self.restarts * (3 * self.steps + 1)

    def _start(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return random_point(self.norm, x, self.eps, generator) if self.random_start else x

    def _step(self, x: Tensor, images: Tensor, gradient: Tensor) -> Tensor:
        alpha = self.eps / 4 if self.alpha is None else self.alpha
        return project(self.norm, x, images + alpha * steepest(self.norm, gradient), self.eps)

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        best = Best(x)
        for _ in range(self.restarts):
            # Drawn for all images, also those done with: the next restart must not depend on it.
            start = self._start(x, generator)
            rows = best.rows(not self.early_stop)
            if not len(rows):
                break
            self._run(model, x, y, start, rows, best)
        return best.result(self.norm)

    def _run(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        start: Tensor,
        rows: Tensor,
        best: Best,
        climb: Climb = climb,
    ) -> None:
        loss = LOSSES[self.loss]
        x, y, images = x[rows], y[rows], start[rows]
        for _ in range(self.steps):
            logits, values, gradient = climb(model, images, y, loss)
            wrong = logits.argmax(1) != y
            best.offer(rows, images, values, wrong)
            if self.early_stop and wrong.any():
                keep = ~wrong
                rows, x, y = rows[keep], x[keep], y[keep]
                images, gradient = images[keep], gradient[keep]
                if not len(rows):
                    return
            images = self._step(x, images, gradient)
        logits = model(images)
        best.offer(rows, images, loss(logits, y), logits.argmax(1) != y)


def fgsm(eps: float, **settings: Any) -> PGD:
    """One step of the whole radius from the image itself (Goodfellow et al. 2015)."""
    return PGD(eps, **{"steps": 1, "alpha": eps or None, "random_start": False, **settings})
