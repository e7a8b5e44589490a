"""Where Newton's method starts: the solution of a row of normal units with the same spread."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

# of the start: its std, and its places
SPREAD_ROUNDS, START_STEPS = 3, 2


def normal_start(
    y: Tensor, strength: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """z of a row of normal units with the same mean and spread, and B of that row at any place.

    Of normal x and x', both of std t, the mean of tanh(x' - x) over x' is about -tanh(x / width),
    width^2 = 1 + pi t^2 / 2, with the mean slope 1 / sqrt(1 + pi t^2): the first leaves an
    equation z - c tanh(z / width) = y for each unit by itself, the second gives t.
    """
    if weights is None:
        mean = y.mean(1, keepdim=True)
        centered = y - mean
        square = centered.square().mean(1, keepdim=True).mul_(math.pi)
    else:
        mean = (y * weights).sum(1, keepdim=True)
        centered = y - mean
        square = centered.square().mul_(weights).sum(1, keepdim=True).mul_(math.pi).clamp_(min=0)
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
    # the less of the two for c > 0, the greater for c < 0
    sign = torch.ones_like(strength).copysign_(strength)
    straight = size * (sign / (1 - pulled).clamp_(min=0.02))
    z = torch.minimum(straight, (size + strength).mul_(sign), out=straight).mul_(sign)
    double = 2 * width
    for _ in range(START_STEPS):
        # tanh as 2 sigmoid - 1, which takes a third of its time
        pull = (z * double).sigmoid_().mul_(2).sub_(1)
        # z - (z - c pull - size) / (1 - c (1 - pull^2) / width)
        left = (z - size).addcmul_(strength, pull, value=-1)
        z.sub_(left.div_(pull.square_().sub_(1).mul_(pulled).add_(1)))
    return (
        z.copysign_(centered).add_(mean),
        lambda t: (t - mean).mul_(double).sigmoid_().mul_(-2).add_(1),
    )
