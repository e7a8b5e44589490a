"""Newton's method on the equation z + c B(z) = y, row by row, with steps halved when too long.

The merit is the residual, not the energy: below the threshold J is uniformly invertible, a Newton
direction shrinks every component of the residual at once, and so halving always ends.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ibnn.engine.portable.equation import Field, Rows

MAX_STEPS = 60
MAX_HALVINGS = 12
DESCENT_STEPS = 100


def newton(
    y: Tensor,
    strength: Tensor,
    atol: Tensor,
    start: Tensor,
    field_at: Callable[[Tensor, Tensor], Field],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Solve from `start`; `strength` and `atol` are (rows, 1), and `field_at(z, rows)` is the field
    at z of the rows with these numbers.

    Returns the best z found, and per row its largest residual, the steps taken, and how many times
    the residual allowed that residual is. Each row goes on until it is done.
    """
    # an error is at most residual / (1 - c) for 0 < c < 1, and no larger than it for c < 0
    goal = torch.where(strength < 1, (1 - strength).clamp(max=1), 0.02) * atol
    # B is within +-1, and for c < 0 the solution stays within the range of y
    spill = strength.clamp(min=0)
    low, high = y.amin(1, keepdim=True), y.amax(1, keepdim=True)
    rows = Rows(y, strength, goal, low - spill, high + spill)
    z = rows.inside(start)
    numbers = torch.arange(len(z), device=z.device)
    field = field_at(z, numbers)
    residual = rows.residual(z, field)
    worst, excess, merit = rows.measure(residual)
    going = excess > 1
    count = torch.zeros_like(worst, dtype=torch.int32)
    result = z.clone(), worst.clone(), count, excess.clone()
    for step in range(MAX_STEPS + 1):
        if step == MAX_STEPS or not going.all():
            steps = torch.full_like(worst, step, dtype=torch.int32)
            for whole, part in zip(result, (z, worst, steps, excess), strict=True):
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
        direction = field.solve(residual, rows.strength, tolerance)
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


def descend(y: Tensor, strength: Tensor, field_at: Callable[[Tensor], Field]) -> Tensor:
    """A start for c near or above the threshold, where Newton's directions may lead uphill.

    For c > 0 the energy's Hessian is at most 1, so each step z <- y - c B(z) lowers the energy.
    """
    z = y
    for _ in range(DESCENT_STEPS):
        z = torch.where(strength > 0, y - strength * field_at(z).bias, z)
    return z
