"""J v = g on any field: solved about, then corrected by the true residual J v - g."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ibnn.engine.portable.device import look


class Linear(Protocol):
    """What is known of J at one z."""

    @property
    def slope(self) -> Tensor: ...

    def product(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """P_1(z, v), and v . B(z) of each row."""
        ...

    def solve(self, g: Tensor, strength: Tensor, tolerance: Tensor | float) -> Tensor: ...


def solve_adjoint(
    field: Linear, g: Tensor, strength: Tensor, wanted: float, most_rounds: int
) -> tuple[Tensor, np.ndarray, Tensor]:
    """v, and of each row the relative error that its true residual allows at most (on the host),
    and v . B(z).

    J is symmetric and its smallest eigenvalue is 1 - c or more (1 for c < 0), so |e| <= |J v - g|
    over that, in the Euclidean norm. Nothing is known above the threshold; 0.05 is taken there.
    """
    kept = 1 - strength * field.slope
    least = torch.where(strength < 1, (1 - strength).clamp(max=1), 0.05)
    tolerance = 1e-7 if g.dtype == torch.float64 else 1e-5
    mean = g.mean(1, keepdim=True)
    v, left, known = None, g, np.full(len(g), np.inf)
    best, error, dot = g, torch.full_like(strength, torch.inf), torch.zeros_like(strength)
    for _ in range(most_rounds):
        change = field.solve(left, strength, tolerance)
        v = change if v is None else v + change
        # J keeps the mean; of a row far below the threshold it may be nearly all that is left of g,
        # and the rounding of sums, c times as large, was 2.5e-4 of it at c = -384
        v = v + (mean - v.mean(1, keepdim=True))
        pulled, along = field.product(v)
        left = torch.addcmul(g, kept, v, value=-1).addcmul_(strength, pulled, value=-1)
        size = v.norm(dim=1, keepdim=True).clamp_(min=torch.finfo(g.dtype).tiny)
        now = left.norm(dim=1, keepdim=True).div_(size).div_(least)
        better = now < error
        best, error = torch.where(better, v, best), torch.where(better, now, error)
        dot = torch.where(better, along[:, None], dot)
        # the one look of each round
        before, (known,) = known, look(error.squeeze(1))
        if ((known <= wanted) | (known >= before)).all():
            break
    return best, known, dot.squeeze(1)
