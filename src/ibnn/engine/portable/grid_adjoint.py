"""J v = g on the grid at one go: what the solution leaves is judged on the nodes.

With v = (g - c u(z)) / (1 - c d(z)) for a spline u, J v - g is c (P_1(z, v) - u): a spline as well.
So the units are spread once more, and nothing is read off there.
"""

import torch
from torch import Tensor

from ibnn.engine.portable.grid_field import GridField

# of the solve on the nodes; a tenth of what a gradient is promised to
NODE_ERROR = 1e-5


def grid_adjoint(field: GridField, g: Tensor, strength: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """v, and of each row a bound of its relative error and v . B(z); `strength` below 1.

    J is symmetric and its smallest eigenvalue is 1 - c or more (1 for c < 0), so |e| <= |J v - g|
    over that, in the Euclidean norm. A B-spline is a mean of its coefficients: the square of it,
    summed over the units, is at most that of the coefficients, summed with the weights there.
    """
    units, least = g.shape[1], (1 - strength).clamp_(max=1)
    v, pulled = field.solve_and_pull(g, strength, NODE_ERROR * least)
    weights = field.spread(v)
    left = field.taps.apply(weights, 1, 2).sub_(pulled).square_().mul_(field.density)
    left = left.sum(1, keepdim=True).sqrt_().mul_(strength.abs())
    dot = weights.mul_(field.taps.apply(field.density, 0, 2)).sum(1).mul_(units)
    # J keeps the mean; of a row far below the threshold it may be nearly all that is left of g, and
    # the rounding of sums, c times as large, was 2.5e-4 of it at c = -384
    shift = g.mean(1, keepdim=True).sub_(v.mean(1, keepdim=True))
    v.add_(shift)
    size = v.norm(dim=1, keepdim=True).clamp_(min=torch.finfo(v.dtype).tiny)
    error = left.add_(shift.abs_()).mul_(units**0.5).div_(size).div_(least)
    return v, error.squeeze(1), dot
