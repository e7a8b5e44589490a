"""A field right to float64: sums from a fine grid, solves from a coarse one, refined."""

from functools import cached_property

import torch
from torch import Tensor

from ibnn.engine.portable import layout as layouts
from ibnn.engine.portable.grid_field import GridField

MAX_REFINEMENTS = 8


class FineField:
    def __init__(self, z: Tensor, middle: Tensor, level: int, sigma: str) -> None:
        self._at = z, middle, level, sigma
        self._sums = GridField(z, middle, layouts.summing(level, sigma, z.dtype))

    @cached_property
    def _solver(self) -> GridField:
        z, middle, level, sigma = self._at
        return GridField(z, middle, layouts.solving(level, sigma))

    @property
    def bias(self) -> Tensor:
        return self._sums.bias

    def solve(
        self, g: Tensor, strength: Tensor, tolerance: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """To about 1e-5: enough for a Newton direction, whose residual comes from the fine grid."""
        return self._solver.solve(g, strength, tolerance)

    def solve_refined(self, g: Tensor, strength: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
        """v with J v = g, each round dividing the residual by 1e4 or so; the best is kept."""
        best, residual, v = torch.zeros_like(g), torch.ones_like(strength), torch.zeros_like(g)
        size = g.abs().amax(1, keepdim=True).clamp(min=torch.finfo(g.dtype).tiny)
        left = g
        for _ in range(MAX_REFINEMENTS):
            v = v + self._solver.solve(left, strength, 1e-7)[0]
            curved = self._sums.pair_sum(v, 1) - self._sums.slope * v
            left = g - v - strength * curved
            error = left.abs().amax(1, keepdim=True) / size
            better = error < residual
            best = torch.where(better, v, best)
            residual = torch.where(better, error, residual)
            if ((residual <= tolerance) | ~better).all():
                break
        return best, residual.squeeze(1)
