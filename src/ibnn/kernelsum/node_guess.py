"""A first z from few unknowns: the equation solved on nodes of y instead of on all units.

Units y_i become quadrature weights q on uniform nodes Y (exact for functions that vary no faster
than the grid), the equation Z_s + c sum_r q_r s(Z_r - Z_s) = Y_s is solved there, and z(y) is read
off the spline through (Y, Z).
"""

import math

import torch
from torch import Tensor

from ibnn.kernelsum.grid import LongPlaces, Places, locate
from ibnn.kernelsum.grid_field import GridField
from ibnn.kernelsum.layout import MARGIN, Layout
from ibnn.kernelsum.taps import IDENTITY, Taps
from ibnn.kernelsum.unit_newton import newton

ORDER = 4
# nodes outside the units: support of the spline, and room for the tails of the quadrature
OUTSIDE = ORDER // 2 + 3


class NodeGuess:
    """z as a function of y, one for each row."""

    def __init__(
        self, low: Tensor, high: Tensor, strength: Tensor, atol: Tensor, layout: Layout, cells: int
    ) -> None:
        """All tensors are (rows, 1); `cells` are those between the lowest and highest unit."""
        self.strength, self.atol, self.layout = strength, atol, layout
        self.nodes = cells + 2 * OUTSIDE
        self.middle = low + (high - low) / 2
        self.spacing = (high - low) / cells
        self.spacing = torch.where(self.spacing > 0, self.spacing, torch.ones_like(low))
        self.origin = self.middle - self.spacing * ((self.nodes - 1) / 2)
        self.mass = low.new_empty(len(low), self.nodes)
        self.shift = self.mass

    def _places(self, y: Tensor, rows: slice) -> Places | LongPlaces:
        return locate(y, self.origin[rows], self.spacing[rows], self.nodes, ORDER)

    def count(self, y: Tensor, rows: slice) -> None:
        """Take in the units of some rows."""
        torch.div(self._places(y, rows).spread(None), y.shape[1], out=self.mass[rows])

    def solve(self) -> Tensor:
        """Find z(y) of all rows; returns the steps taken."""
        # dividing a grid's spline out does not depend on its spacing
        straight = Layout(self.layout.sigma, 1.0, self.nodes - ORDER - 2 * MARGIN, ORDER)
        mass = Taps(straight, self.mass).apply(self.mass, IDENTITY, 1)
        place = torch.arange(self.nodes, device=mass.device, dtype=mass.dtype)
        target = self.origin + self.spacing * place

        def field_at(z: Tensor, rows: Tensor | None) -> GridField:
            if rows is None:
                return GridField(z, self.middle, self.layout, mass, rough=True)
            return GridField(z, self.middle[rows], self.layout, mass[rows], rough=True)

        start = _gaussian_start(target, mass, self.strength)
        z, _, steps = newton(target, self.strength, self.atol, start, field_at)
        self.shift = _spline_through(z - target)
        return steps

    def at(self, y: Tensor, rows: slice) -> Tensor:
        """z at the units of some rows."""
        return self._places(y, rows).gather(self.shift[rows]).add_(y)


def _gaussian_start(y: Tensor, mass: Tensor, strength: Tensor) -> Tensor:
    """The linear map that solves a Gaussian row: std t of z from t + |c| t / sqrt(1 + pi t^2)."""
    mean = (mass * y).sum(1, keepdim=True)
    std = (mass * (y - mean).square()).sum(1, keepdim=True).clamp(min=1e-12).sqrt()
    pull = -strength
    scale = torch.ones_like(std)
    for _ in range(8):
        slope = 1 / (1 + math.pi * (scale * std).square()).sqrt()
        scale = (scale + 1 / (1 + pull * slope).clamp(min=0.05)) / 2
    return mean + (y - mean) * scale


def _spline_through(values: Tensor) -> Tensor:
    """Coefficients of the spline through the nodes, continued straight at both ends."""
    reach = 12
    steps = torch.arange(1, reach + 1, device=values.device, dtype=values.dtype)
    left = values[:, :1] + (values[:, :1] - values[:, 1:2]) * steps.flip(0)
    right = values[:, -1:] + (values[:, -1:] - values[:, -2:-1]) * steps
    longer = torch.cat((left, values, right), 1)
    layout = Layout("tanh", 1.0, longer.shape[1] - ORDER - 2 * MARGIN, ORDER)
    return Taps(layout, values).apply(longer, IDENTITY, 1)[:, reach:-reach]
