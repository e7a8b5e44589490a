"""Newton's method on the equation z + c B(z) = y, row by row, with steps halved when too long.

The merit is the residual, not the energy: below the threshold J is uniformly invertible, a Newton
direction shrinks every component of the residual at once, and so halving always ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

MAX_STEPS = 60
MAX_HALVINGS = 12
DESCENT_STEPS = 100
# at least the largest second derivative of tanh (0.77), erf (0.76) and arctan (1.02)
CURVATURE = 1.03
# steps taken on trust before they are looked at
FULL_STEPS = 4
# a direction from a grid is right to this share
GRID_ERROR = 1e-4


class Field(Protocol):
    """What is known at one z: B(z), and how to solve with its Jacobian."""

    # sigma is smooth and the residuals that `solve` tells can be relied on
    predictable: bool

    @property
    def bias(self) -> Tensor: ...

    def solve(
        self, g: Tensor, strength: Tensor, tolerance: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """v with J v = g, and the relative residual of each row."""
        ...


# the field at z, whose rows are those of the problem with these numbers (all if None)
FieldAt = Callable[[Tensor, Tensor | None], Field]


@dataclass
class _Rows:
    """The equation of the rows still at work; `floor` is the rounding of its terms."""

    y: Tensor
    strength: Tensor
    goal: Tensor
    low: Tensor
    high: Tensor

    def take(self, rows: Tensor) -> "_Rows":
        return _Rows(*(t.index_select(0, rows) for t in vars(self).values()))

    def inside(self, z: Tensor) -> Tensor:
        return torch.maximum(torch.minimum(z, self.high), self.low)

    def residual(self, z: Tensor, field: Field) -> Tensor:
        return (z - self.y).addcmul_(self.strength, field.bias)

    def measure(self, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Per row: the largest residual, the largest as a share of what is allowed, the mean."""
        size = residual.abs()
        worst = size.amax(1)
        # nothing is asked below the rounding of the equation's own terms
        floor = (self.y.abs() + self.strength.abs()).mul_(4 * torch.finfo(size.dtype).eps)
        share = size.div_(torch.maximum(floor, self.goal, out=floor))
        return worst, share.amax(1), share.square_().mean(1).sqrt_()


def newton(
    y: Tensor, strength: Tensor, atol: Tensor, start: Tensor, field_at: FieldAt
) -> tuple[Tensor, Tensor, Tensor]:
    """Solve from `start`; `strength` and `atol` are (rows, 1).

    Returns the best z found, its largest residual and the steps taken, per row.
    """
    # an error is at most residual / (1 - c) for c > 0, and no larger than it for c < 0
    goal = (1 - strength).clamp(0.02, 1) * atol
    # B is within +-1, and for c < 0 the solution stays within the range of y
    spill = strength.clamp(min=0)
    low, high = y.amin(1, keepdim=True) - spill, y.amax(1, keepdim=True) + spill
    rows = _Rows(y, strength, goal, low, high)
    z = rows.inside(start)
    worst = torch.full_like(goal.squeeze(1), torch.inf)
    steps = torch.zeros_like(worst, dtype=torch.int32)
    left = _full_steps(rows, field_at, z, worst, steps)
    if len(left):
        found = _search(rows.take(left), z[left], lambda at, some: field_at(at, left[some]))
        for whole, part in zip((z, worst), found, strict=False):
            whole.index_copy_(0, left, part)
        steps.index_add_(0, left, found[2])
    return z, worst, steps


def _full_steps(rows: _Rows, field_at: FieldAt, z: Tensor, worst: Tensor, steps: Tensor) -> Tensor:
    """A few steps that are never halved, written into z, worst and steps.

    Returns the rows for which this is not enough; their z is the best that was met.
    """
    numbers, at = torch.arange(len(z), device=z.device), z
    for step in range(FULL_STEPS):
        field = field_at(at, None if len(numbers) == len(z) else numbers)
        if not field.predictable:
            break
        residual = rows.residual(at, field)
        now = torch.maximum(residual.amax(1), -residual.amin(1))
        direction, rest = _predict(field, residual, now, rows)
        near = rows.inside(direction.neg_().add_(at))
        sure = rest <= rows.goal.squeeze(1)
        if sure.all():
            z.index_copy_(0, numbers, near)
            worst.index_copy_(0, numbers, rest)
            steps.index_fill_(0, numbers, step + 1)
            return numbers[:0]
        better = sure | (now < worst[numbers])
        put = better.nonzero().squeeze(1)
        best = torch.where(sure[:, None], near, at)
        z.index_copy_(0, numbers[put], best[put])
        worst.index_copy_(0, numbers[put], torch.where(sure, rest, now)[put])
        steps.index_fill_(0, numbers, step + 1)
        keep = (~sure).nonzero().squeeze(1)
        numbers, at, rows = numbers[keep], near[keep], rows.take(keep)
    return numbers


def _predict(field: Field, residual: Tensor, worst: Tensor, rows: _Rows) -> tuple[Tensor, Tensor]:
    """A Newton direction, and a bound of the residual after that step: no need to look then.

    Beyond its tangent, B leaves at most 1/2 mean_k |s_2| (v_k - v_i)^2 after a step v.
    """
    tolerance = (0.1 * rows.goal / worst[:, None]).clamp_(1e-5, 1e-2)
    direction, left = field.solve(residual, rows.strength, tolerance)
    square = direction.square()
    bend = (square.mean(1) + square.amax(1)) * (CURVATURE * rows.strength.squeeze(1).abs())
    return direction, bend + (left + GRID_ERROR) * worst


def _search(
    rows: _Rows, z: Tensor, field_at: Callable[[Tensor, Tensor], Field]
) -> tuple[Tensor, Tensor, Tensor]:
    """Newton with halvings, each row until it is done."""
    numbers = torch.arange(len(z), device=z.device)
    field = field_at(z, numbers)
    residual = rows.residual(z, field)
    worst, excess, merit = rows.measure(residual)
    going = excess > 1
    result = z.clone(), worst.clone(), torch.zeros_like(worst, dtype=torch.int32)
    for step in range(MAX_STEPS + 1):
        if step == MAX_STEPS or not going.all():
            steps = torch.full_like(worst, step, dtype=torch.int32)
            for whole, part in zip(result, (z, worst, steps), strict=True):
                whole.index_copy_(0, numbers, part)
            keep = going.nonzero().squeeze(1)
            if step == MAX_STEPS or not len(keep):
                break
            numbers = numbers[keep]
            rows, z, merit, excess = rows.take(keep), z[keep], merit[keep], excess[keep]
            worst = worst[keep]
            field = field_at(z, numbers)
            residual = rows.residual(z, field)
        tolerance = (0.1 / excess[:, None]).clamp_(1e-5, 1e-2)
        direction, _ = field.solve(residual, rows.strength, tolerance)
        size = torch.ones_like(rows.strength)
        moved = torch.zeros_like(excess, dtype=torch.bool)
        base, new_merit = z, merit
        for _ in range(MAX_HALVINGS):
            trial = rows.inside(base - size * direction)
            field = field_at(trial, numbers)
            residual = rows.residual(trial, field)
            new_worst, new_excess, new_merit = rows.measure(residual)
            better = moved | (new_merit < (1 - 1e-3 * size.squeeze(1)) * merit) | (new_excess <= 1)
            if better.all():
                z, worst, excess = trial, new_worst, new_excess
                moved = better
                break
            size = torch.where(better[:, None], size, size / 2)
            z = torch.where(better[:, None], trial, z)
            worst = torch.where(better, new_worst, worst)
            excess = torch.where(better, new_excess, excess)
            moved = better
        merit = torch.where(moved, new_merit, merit)
        going = moved & (excess > 1)
    return result


def enough(strength: Tensor, atol: Tensor) -> Tensor:
    """How near a start must be for one Newton step to end within atol, (rows, 1) each."""
    return ((1 - strength).clamp(0.02, 1) * atol / (2 * CURVATURE * strength.abs() + 1e-6)).sqrt()


def descend(y: Tensor, strength: Tensor, field_at: FieldAt) -> Tensor:
    """A start for c near or above the threshold, where Newton's directions may lead uphill.

    For c > 0 the energy's Hessian is at most 1, so each step z <- y - c B(z) lowers the energy.
    """
    z = y
    for _ in range(DESCENT_STEPS):
        z = torch.where(strength > 0, y - strength * field_at(z, None).bias, z)
    return z
