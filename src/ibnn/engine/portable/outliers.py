"""Rows too long for one grid: a grid for the window with the most units, the others one by one.

With m units outside the window a sum costs O(m D); heavy tails and outliers leave m small.
"""

from functools import cached_property

import torch
from torch import Tensor

from ibnn.engine.portable import layout as layouts
from ibnn.engine.portable.grid_field import GridField
from ibnn.engine.portable.unit_cg import UnitField
from ibnn.sigma import built_in

BLOCK = 1 << 20


class OutlierField(UnitField):
    """The field of a single row, z of shape (1, units)."""

    def __init__(self, z: Tensor, sigma: str) -> None:
        self.z, self.sigma = z, built_in(sigma)
        units = z.shape[1]
        level = layouts.longest_level(units, sigma, z.dtype)
        layout = layouts.summing(level, sigma, z.dtype)
        width = layout.spacing * layout.cells
        ordered = z.sort(dim=1).values
        first = torch.arange(units, device=z.device)
        reach = torch.searchsorted(ordered, ordered + width, right=True) - first
        low = ordered[:, reach.argmax(1)]
        within = ((z >= low) & (z <= low + width)).squeeze(0)
        self.inside = within.nonzero().squeeze(1)
        self.outside = (~within).nonzero().squeeze(1)
        self.grid = GridField(z[:, self.inside], low + width / 2, layout)
        self.bias = self.pair_sum(None, 0)

    @cached_property
    def slope(self) -> Tensor:  # type: ignore[override]
        """Asked for where a step was accepted only: one trial in four."""
        return self.pair_sum(None, 1)

    def pulled(self, v: Tensor) -> Tensor:
        return self.pair_sum(v, 1)

    def pair_sum(self, a: Tensor | None, order: int) -> Tensor:
        """(1/D) sum_k a_k s_n(z_k - z_i)."""
        result = torch.empty_like(self.z)
        few = None if a is None else a[:, self.inside]
        fraction = len(self.inside) / self.z.shape[1]
        result[:, self.inside] = self.grid.pair_sum(few, order) * fraction
        far = self.z[0, self.outside]
        for part in torch.arange(len(far), device=far.device).split(
            max(1, BLOCK // self.z.shape[1])
        ):
            terms = self.sigma.derivative(self.z - far[part, None], order)
            to_inside = terms[:, self.inside] * (-1) ** (order + 1)
            if a is not None:
                terms = terms * a
                to_inside = to_inside * a[0, self.outside[part], None]
            result[0, self.outside[part]] = terms.mean(1)
            result[0, self.inside] += to_inside.sum(0) / self.z.shape[1]
        return result
