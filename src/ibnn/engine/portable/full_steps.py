"""Newton steps taken on trust: a bound says beforehand what they leave."""

import torch
from torch import Tensor

from ibnn.engine.portable.equation import FieldAt, Rows, SmoothField

# at least the largest second derivative of tanh (0.77), erf (0.76) and arctan (1.02)
CURVATURE = 1.03
# steps taken on trust before they are looked at
FULL_STEPS = 4
# a direction from a grid is right to this share
GRID_ERROR = 1e-4


def full_steps(rows: Rows, field_at: FieldAt, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A few steps that are never halved: z, the largest residual and the steps of each row, and
    the rows for which this is not enough; their z is the best that was met.
    """
    worst = torch.full_like(rows.goal.squeeze(1), torch.inf)
    steps = torch.zeros_like(worst, dtype=torch.int32)
    numbers, at = torch.arange(len(z), device=z.device), z
    left: list[Tensor] = []
    for step in range(FULL_STEPS):
        field = field_at(at, None if len(numbers) == len(z) else numbers)
        if not isinstance(field, SmoothField):
            break
        near, rest, now, sure = _step(rows, field, at)
        steps.index_fill_(0, numbers, step + 1)
        if len(numbers) == len(z) and sure.all():
            return near, rest, steps, numbers[:0]
        better = sure | (now < worst[numbers])
        put = better.nonzero().squeeze(1)
        best = torch.where(sure[:, None], near, at)
        z.index_copy_(0, numbers[put], best[put])
        worst.index_copy_(0, numbers[put], torch.where(sure, rest, now)[put])
        left.append(numbers[~better])
        keep = (better & ~sure).nonzero().squeeze(1)
        if not len(keep):
            numbers = numbers[:0]
            break
        numbers, at, rows = numbers[keep], near[keep], rows.take(keep)
    return z, worst, steps, torch.cat([*left, numbers])


def _step(rows: Rows, field: SmoothField, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z after a step, a bound of its residual, the residual before, and which rows are done then.

    Units take a step by themselves if that is enough, and a Newton step together if not.
    """
    residual, goal = rows.residual(z, field), rows.goal.squeeze(1)
    step, rest, now = _alone(rows, field, residual)
    sure = rest <= goal
    if not sure.all():
        together, then = _together(rows, field, residual, now)
        step = torch.where(sure[:, None], step, together)
        rest = torch.where(sure, rest, then)
        sure = rest <= goal
    return rows.inside(z - step), rest, now, sure


def _alone(rows: Rows, field: SmoothField, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The step of each unit as if the others stood still, a bound of the residual after it, and
    one of that before.

    What is left is the pull of the others, c P_1(z, v), at most |c| times their mean step: little
    where the steps repair an interpolation, whose errors have both signs and no weight together.
    """
    step = residual / field.kept(rows.strength)
    size, strength = step.abs(), rows.strength.squeeze(1).abs()
    mean, most = size.mean(1), size.amax(1)
    now = (1 + strength) * most
    return step, strength * (mean + _bend(mean * most, most)) + GRID_ERROR * now, now


def _together(
    rows: Rows, field: SmoothField, residual: Tensor, worst: Tensor
) -> tuple[Tensor, Tensor]:
    """A Newton step, and a bound of the residual after it: no need to look then."""
    # no better than the curvature of B allows
    tolerance = torch.maximum(0.1 * rows.goal / worst[:, None], 0.03 * worst[:, None])
    step, left = field.solve(residual, rows.strength, tolerance.clamp_(1e-5, 1e-2))
    square, strength = step.square(), rows.strength.squeeze(1).abs()
    bend = _bend(square.mean(1), square.amax(1).sqrt())
    return step, strength * bend + (left + GRID_ERROR) * worst


def _bend(mean_square: Tensor, most: Tensor) -> Tensor:
    """What B leaves beyond its tangent after a step v: 1/2 mean_k |s_2| (v_k - v_i)^2 at most."""
    return CURVATURE * (mean_square + most.square())
