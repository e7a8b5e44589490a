"""Curvature of the loss with respect to the input, by Rademacher directions (Garg et al.).

For directions v of signs, E |H v|^2 = tr(H^2) = |H|_F^2, H the Hessian of one example's loss. Here
H v is exact (two backward passes); with `step` it is the difference quotient of the paper instead,
(grad L(x + h v) - grad L(x)) / h, which also sees the kinks of ReLU that H is blind to.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]  # inputs, labels -> one loss per example
BATCH = 256


@dataclass(frozen=True)
class Curvatures:
    """Of the loss around every example looked at, with both neurons."""

    standard: Tensor
    implicit: Tensor

    def ratio(self) -> Tensor:
        """Implicit over standard, where the dtype can tell them from zero."""
        tiny = torch.finfo(self.standard.dtype).tiny
        seen = (self.standard > tiny) & (self.implicit > tiny)
        return self.implicit[seen] / self.standard[seen]

    def rank_correlation(self) -> float:
        """Spearman's: 1 if both networks order the examples alike."""
        ranks = torch.stack(
            [v.argsort().argsort().double() for v in (self.standard, self.implicit)]
        )
        return float(torch.corrcoef(ranks)[0, 1])


def curvature(
    loss: Loss,
    x: Tensor,
    y: Tensor,
    generator: torch.Generator,
    *,
    directions: int = 10,
    step: float | None = None,
) -> Tensor:
    """An unbiased estimate (for step=None) of |H|_F^2 of each example."""
    if directions < 1:
        raise ValueError(f"directions is {directions}, expected at least 1")
    parts = [
        _curvature(loss, a, b, _signs(a, directions, generator), step)
        for a, b in zip(x.split(BATCH), y.split(BATCH), strict=True)
    ]
    return torch.cat(parts)


def _curvature(loss: Loss, x: Tensor, y: Tensor, signs: Tensor, step: float | None) -> Tensor:
    point = x.detach().requires_grad_()
    slope = _gradient(loss, point, y, graph=step is None)
    total = x.new_zeros(len(x))
    for v in signs:
        if step is None:
            change = _product(slope, point, v)
        else:
            moved = (x + step * v).requires_grad_()
            change = (_gradient(loss, moved, y, graph=False) - slope) / step
        total += change.detach().flatten(1).square().sum(1)
    return total / len(signs)


def _gradient(loss: Loss, x: Tensor, y: Tensor, graph: bool) -> Tensor:
    (slope,) = torch.autograd.grad(loss(x, y).sum(), x, create_graph=graph)
    return slope


def _product(slope: Tensor, x: Tensor, v: Tensor) -> Tensor:
    """H v of every example: examples do not see each other, so one sum serves them all."""
    if not slope.requires_grad:  # the loss is linear in x
        return torch.zeros_like(x)
    (product,) = torch.autograd.grad(
        (slope * v).sum(), x, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return product


def _signs(x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Rademacher directions: every component +1 or -1."""
    drawn = torch.randint(0, 2, (count, *x.shape), generator=generator)
    return (2 * drawn - 1).to(x)


def gradient_norms(loss: Loss, x: Tensor, y: Tensor) -> Tensor:
    """|dL/dx| of each example."""
    parts = [
        _gradient(loss, a.detach().requires_grad_(), b, graph=False).flatten(1).norm(dim=1)
        for a, b in zip(x.split(BATCH), y.split(BATCH), strict=True)
    ]
    return torch.cat(parts)
