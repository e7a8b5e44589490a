"""A field right to float64: sums from a fine grid, solves from a coarse one, refined."""

from functools import cached_property

from torch import Tensor

from ibnn.engine.portable import layout as layouts
from ibnn.engine.portable.grid_field import GridField


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

    def solve(self, g: Tensor, strength: Tensor, tolerance: Tensor | float) -> Tensor:
        """To about 1e-5: enough for a Newton direction, whose residual comes from the fine grid."""
        return self._solver.solve(g, strength, tolerance)

    @property
    def slope(self) -> Tensor:
        return self._sums.slope

    def product(self, v: Tensor) -> tuple[Tensor, Tensor]:
        return self._sums.product(v)
