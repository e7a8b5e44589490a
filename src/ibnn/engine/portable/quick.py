"""Newton on the grid with steps taken on trust: a bound says beforehand what they leave.

Few ops and fewer looks: all rows go on until all are done. Rows that are not after a few steps are
left to `unit_newton`, whose steps are halved when too long.
"""

import math

import torch
from torch import Tensor

from ibnn.engine.portable.device import on_host
from ibnn.engine.portable.grid_field import GridField
from ibnn.engine.portable.layout import Layout

MOST_STEPS = 7
# of the start: its std, and its places
SPREAD_ROUNDS, START_STEPS = 3, 2
# at least the largest second derivative of tanh (0.77), erf (0.76) and arctan (1.02)
CURVATURE = 1.03
# a direction from a grid is right to this fraction
GRID_ERROR = 1e-4


def quick_newton(
    y: Tensor, strength: Tensor, atol: Tensor, layout: Layout
) -> tuple[Tensor, Tensor, int, Tensor, bool]:
    """z, a bound of its largest residual, the steps taken, which rows are within `atol`, and
    whether all of them are.

    `strength` (below 1) and `atol` are (rows, 1).
    """
    low, high = y.amin(1, keepdim=True), y.amax(1, keepdim=True)
    middle = low + (high - low) / 2
    # B is within +-1, and for c < 0 the solution stays within the range of y
    spill = strength.clamp(min=0)
    low, high = low - spill, high + spill
    curved, least = CURVATURE * strength.abs(), (1 - strength).clamp(max=1)
    goal = least * atol
    z = _normal_start(y, strength).clamp_(low, high)
    rest, done, all_done, step = atol, atol > 0, False, 0
    for step in range(1, MOST_STEPS + 1):
        field = GridField(z, middle, layout, rough=True)
        residual = (z - y).addcmul_(strength, field.bias)
        now = residual.abs().amax(1, keepdim=True)
        tolerance: Tensor | float = 1e-2
        if on_host(y):  # elsewhere products are counted; no better than the curvature of B allows
            tolerance = (0.1 * goal / now).maximum(0.03 * now).clamp_(1e-5, 1e-2)
        change, left = field.solve(residual, strength, tolerance)
        z = z.sub_(change).clamp_(low, high)
        change.square_()
        bend = change.mean(1, keepdim=True) + change.amax(1, keepdim=True)
        # what B leaves beyond its tangent after a step v: 1/2 mean_k |s_2| (v_k - v_i)^2 at most
        rest = (curved * bend).add_((left[:, None] + GRID_ERROR) * now)
        done = rest <= goal
        if on_host(y) or step > 1:
            all_done = bool(done.all())
            if all_done:
                break
    return z, rest.squeeze(1), step, done.squeeze(1), all_done


def _normal_start(y: Tensor, strength: Tensor) -> Tensor:
    """z of a row of normal units with the same mean and spread.

    Of normal x and x', both of std t, the mean of tanh(x' - x) over x' is about -tanh(x / width),
    width^2 = 1 + pi t^2 / 2, with the mean slope 1 / sqrt(1 + pi t^2): the first leaves an
    equation z - c tanh(z / width) = y for each unit by itself, the second gives t.
    """
    mean = y.mean(1, keepdim=True)
    centered = y - mean
    square = centered.square().mean(1, keepdim=True).mul_(math.pi)
    one = torch.ones_like(square)
    steepest = one.clone()
    for _ in range(SPREAD_ROUNDS):
        slope = torch.addcmul(one, square, steepest.square()).rsqrt_()
        rise = slope.mul_(strength).sub_(1).clamp_(max=-0.05).reciprocal_()
        steepest = steepest.sub_(rise).mul_(0.5)
    width = torch.addcmul(one, square, steepest.square(), value=0.5).rsqrt_()
    pulled = strength * width
    # both bounds of |z| hold; from the nearer one Newton's steps never pass the solution
    size = centered.abs()
    straight, far = size / (1 - pulled).clamp_(min=0.02), size + strength
    z = torch.where(strength > 0, torch.minimum(straight, far), torch.maximum(straight, far))
    for _ in range(START_STEPS):
        pull = (z * width).tanh_()
        # z - (z - c pull - size) / (1 - c (1 - pull^2) / width)
        left = (z - size).addcmul_(strength, pull, value=-1)
        z.sub_(left.div_(pull.square_().sub_(1).mul_(pulled).add_(1)))
    return z.copysign_(centered).add_(mean)
