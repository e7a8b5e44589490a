"""The nearest point of a hyperplane inside the box [0, 1], exactly, for many rows at once."""

import torch
from torch import Tensor

from ibnn.lab.training.ball import Norm, distance, per_row, steepest

_STEPS = 50  # one per group of coordinates that meet the box together; a handful in practice


def to_hyperplane(norm: Norm, x: Tensor, normal: Tensor, gap: Tensor) -> Tensor:
    """The smallest d with `<normal, d> = gap` and `x + d` in [0, 1], per row.

    The answer is `d(t) = clamp(t * u, -x, 1 - x)`, u = sign(normal) in l_inf and normal in l_2,
    for the t at which `<normal, d(t)> = gap`: that is what the optimality conditions say. The
    left side is increasing, concave and piecewise linear in t >= 0, so Newton's method from t = 0
    climbs to the answer without overshooting and ends after as many steps as there are kinks on
    the way. Where the box does not reach the hyperplane: the corner nearest to it.

    (FAB's paper sorts the coordinates instead; this is shorter and has no index arithmetic.)
    """
    # A negative gap is the mirror image: normal and gap change sign together.
    sign = torch.where(gap < 0, -1.0, 1.0).to(x.dtype)
    normal, gap = (normal * per_row(sign, x)).flatten(1), gap * sign
    # Unit length, so that t is a length too.
    scale = distance("l2", normal).clamp_min(torch.finfo(x.dtype).tiny)
    normal, gap = steepest("l2", normal), gap / scale
    direction = normal.sign() if norm == "linf" else normal
    low, high = -x.flatten(1), 1 - x.flatten(1)
    t = torch.zeros_like(gap)
    move = torch.zeros_like(normal)
    small = 4 * torch.finfo(x.dtype).eps
    for _ in range(_STEPS):
        missing = gap - (normal * move).sum(1)
        # Coordinates that still move as t grows.
        free = torch.where(normal > 0, move < high, move > low)
        speed = (normal * direction * free).sum(1)
        going = (missing > small * gap) & (speed > 0)
        if not going.any():
            break
        t = torch.where(going, t + missing / speed.clamp_min(_least(x)), t)
        move = (t[:, None] * direction).clamp(low, high)
    return move.reshape(x.shape)


def _least(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny
