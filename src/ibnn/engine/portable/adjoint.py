"""J v = g on any field: solved about, then corrected by the true residual J v - g."""

from typing import Protocol

import torch
from torch import Tensor


class Linear(Protocol):
    """What is known of J at one z."""

    @property
    def slope(self) -> Tensor: ...

    def product(self, v: Tensor) -> Tensor:
        """P_1(z, v)."""
        ...

    def solve(
        self, g: Tensor, strength: Tensor, tolerance: Tensor | float
    ) -> tuple[Tensor, Tensor]: ...


def solve_adjoint(
    field: Linear, g: Tensor, strength: Tensor, wanted: float, most_rounds: int
) -> tuple[Tensor, Tensor]:
    """v, and of each row the relative error that its true residual allows at most.

    J is symmetric and its smallest eigenvalue is 1 - c or more (1 for c < 0), so |e| <= |J v - g|
    over that, in the Euclidean norm. Nothing is known above the threshold; 0.05 is taken there.
    """
    kept = 1 - strength * field.slope
    least = torch.where(strength < 1, (1 - strength).clamp(max=1), 0.05)
    v, left = torch.zeros_like(g), g
    best, error = v, torch.full_like(strength, torch.inf)
    for _ in range(most_rounds):
        v = v + field.solve(left, strength, 1e-7 if g.dtype == torch.float64 else 1e-5)[0]
        left = g - kept * v - strength * field.product(v)
        size = v.norm(dim=1, keepdim=True).clamp_(min=torch.finfo(g.dtype).tiny)
        now = left.norm(dim=1, keepdim=True) / (least * size)
        better = now < error
        best, error = torch.where(better, v, best), torch.where(better, now, error)
        if ((error <= wanted) | ~better).all():
            break
    return best, error.squeeze(1)
