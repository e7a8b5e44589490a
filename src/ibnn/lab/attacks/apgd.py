"""Auto-PGD (Croce & Hein 2020): PGD with momentum that halves its own steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.best import Best
from ibnn.lab.attacks.losses import Loss, climb, cross_entropy, dlr, targeted_dlr
from ibnn.lab.attacks.settings import check_one_of, check_settings
from ibnn.lab.training.ball import per_row, project, random_point, steepest

MOMENTUM = 0.75  # fraction of the new step; the rest repeats the last one
RHO = 0.75  # fraction of steps that must raise the loss for a step length to be kept


def checkpoints(steps: int) -> list[int]:
    """Where the step length is judged: p_0 = 0, p_1 = 0.22, then gaps shrinking by 0.03 to 0.06.

    Counted in whole steps, as the authors' implementation does.

    >>> checkpoints(100)
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    gap, shrink, least = (max(int(fraction * steps), 1) for fraction in (0.22, 0.03, 0.06))
    places, at = [], 0
    while at + gap <= steps:
        at += gap
        places.append(at)
        gap = max(gap - shrink, least)
    return places


@dataclass
class _Path:
    """Where each image's run stands; one row per image still attacked."""

    rows: Tensor
    x: Tensor
    y: Tensor
    target: Tensor
    images: Tensor
    before: Tensor  # the iterate before
    gradient: Tensor
    loss: Tensor
    best: Tensor  # of this run, with its gradient and loss
    best_gradient: Tensor
    best_loss: Tensor
    length: Tensor  # of a step
    rises: Tensor  # steps that raised the loss since the last checkpoint
    halved: Tensor  # at the last checkpoint
    loss_then: Tensor  # best_loss at the last checkpoint

    def keep(self, mask: Tensor) -> _Path:
        return replace(self, **{f.name: getattr(self, f.name)[mask] for f in fields(self)})


@dataclass(frozen=True)
class APGD(Attack):
    """Auto-PGD; its only setting that matters is the number of steps.

    Args:
        loss: `"ce"`, `"dlr"`, or `"dlr-targeted"`, which is APGD-T: one run for each of the
            `targets` classes the model finds most likely.
        restarts: runs from new random points, each of all targets.
        early_stop: leave an image alone once it is wrong (see `PGD`).
    """

    eps: float
    steps: int = 100
    loss: Literal["ce", "dlr", "dlr-targeted"] = "ce"
    restarts: int = 1
    targets: int = 9
    early_stop: bool = True

    uses_gradients: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "steps", "restarts", "targets")
        check_one_of("loss", self.loss, ("ce", "dlr", "dlr-targeted"))

    @property
    def name(self) -> str:
        return f"apgd-{'t' if self.loss == 'dlr-targeted' else self.loss}-{self.norm}"

    def passes(self, classes: int) -> int:
        targets = min(self.targets, classes - 1) if self.loss == "dlr-targeted" else 1
        return self.restarts * targets * 3 * (self.steps + 1) + 1

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        best = Best(x)
        for target in self._targets(model, x, y, best):
            start = random_point(self.norm, x, self.eps, generator)
            rows = best.rows(not self.early_stop)
            if not len(rows):
                break
            self._run(model, x[rows], y[rows], target[rows], start[rows], rows, best)
        return best.result(self.norm)

    def _targets(self, model: nn.Module, x: Tensor, y: Tensor, best: Best) -> Iterator[Tensor]:
        """The target class of each image for each run; without targets, the label itself."""
        if self.loss != "dlr-targeted":
            yield from [y] * self.restarts
            return
        best.queries += 1
        logits = model(x)
        others = logits.scatter(1, y[:, None], -torch.inf)
        likely = others.topk(min(self.targets, logits.shape[1] - 1), dim=1).indices
        for _ in range(self.restarts):
            yield from likely.unbind(1)

    def _loss(self, target: Tensor) -> Loss:
        if self.loss == "dlr-targeted":
            return targeted_dlr(target)
        return cross_entropy if self.loss == "ce" else dlr

    def _run(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        target: Tensor,
        start: Tensor,
        rows: Tensor,
        best: Best,
    ) -> None:
        logits, loss, gradient = climb(model, start, y, self._loss(target))
        wrong = logits.argmax(1) != y
        best.offer(rows, start, loss, wrong)
        path = _Path(
            rows=rows,
            x=x,
            y=y,
            target=target,
            images=start,
            before=start,
            gradient=gradient,
            loss=loss,
            best=start,
            best_gradient=gradient,
            best_loss=loss,
            length=torch.full_like(loss, 2 * self.eps),
            rises=torch.zeros_like(rows),
            halved=torch.ones_like(wrong),
            loss_then=loss,
        )
        places, last = checkpoints(self.steps), 0
        for step in range(1, self.steps + 1):
            if self.early_stop and wrong.any():
                path = path.keep(~wrong)
                if not len(path.rows):
                    return
            self._move(path, first=step == 1)
            loss = path.loss
            logits, path.loss, path.gradient = climb(
                model, path.images, path.y, self._loss(path.target)
            )
            wrong = logits.argmax(1) != path.y
            best.offer(path.rows, path.images, path.loss, wrong)
            path.rises = path.rises + (path.loss > loss)
            _remember(path)
            if step in places:
                _judge(path, step - last)
                last = step

    def _move(self, path: _Path, first: bool) -> None:
        x, images = path.x, path.images
        step = per_row(path.length, x) * steepest(self.norm, path.gradient)
        ahead = project(self.norm, x, images + step, self.eps)
        if not first:
            mixed = images + MOMENTUM * (ahead - images) + (1 - MOMENTUM) * (images - path.before)
            ahead = project(self.norm, x, mixed, self.eps)
        path.before, path.images = images, ahead


def _remember(path: _Path) -> None:
    better = path.loss > path.best_loss
    wide = per_row(better, path.x)
    path.best = torch.where(wide, path.images, path.best)
    path.best_gradient = torch.where(wide, path.gradient, path.best_gradient)
    path.best_loss = torch.where(better, path.loss, path.best_loss)


def _judge(path: _Path, steps: int) -> None:
    """Halve the step of a path that rises too seldom or stands still, and go back to its best."""
    stuck = ~path.halved & (path.best_loss <= path.loss_then)
    path.halved = (path.rises <= RHO * steps) | stuck
    path.length = torch.where(path.halved, path.length / 2, path.length)
    wide = per_row(path.halved, path.x)
    path.images = torch.where(wide, path.best, path.images)
    path.gradient = torch.where(wide, path.best_gradient, path.gradient)
    path.loss = torch.where(path.halved, path.best_loss, path.loss)
    path.loss_then = path.best_loss
    path.rises = torch.zeros_like(path.rises)
