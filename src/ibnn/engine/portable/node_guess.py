"""A first z from few unknowns: the equation solved on nodes of y instead of on all units.

Units y_i become quadrature weights q on uniform nodes Y (exact for functions that vary no faster
than the grid), the equation Z_s + c sum_r q_r s(Z_r - Z_s) = Y_s is solved there, and z(y) is read
off the spline through (Y, Z).
"""

import math

import torch
from torch import Tensor

from ibnn.engine.portable.grid import LongPlaces, Places, locate
from ibnn.engine.portable.grid_field import GridField
from ibnn.engine.portable.layout import MARGIN, Layout
from ibnn.engine.portable.taps import IDENTITY, Taps
from ibnn.engine.portable.unit_newton import newton

ORDER = 4
# nodes outside the units: support of the spline, and room for the tails of the quadrature
OUTSIDE = ORDER // 2 + 3
# of the start: its std, and its places
SPREAD_ROUNDS, START_STEPS = 6, 2


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

    def places(self, y: Tensor, rows: slice) -> Places | LongPlaces:
        return locate(y, self.origin[rows], self.spacing[rows], self.nodes, ORDER)

    def count(self, places: Places | LongPlaces, rows: slice) -> None:
        """Take in the units of some rows."""
        torch.div(places.spread(None), places.shape[1], out=self.mass[rows])

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

        start = _normal_start(target, mass, self.strength)
        z, _, steps, _ = newton(target, self.strength, self.atol, start, field_at)
        self.shift = _spline_through(z - target)
        return steps

    def at(self, y: Tensor, places: Places | LongPlaces, rows: slice) -> Tensor:
        """z at the units of some rows."""
        return places.gather(self.shift[rows]).add_(y)


def _normal_start(y: Tensor, mass: Tensor, strength: Tensor) -> Tensor:
    """z(y) of a row of normal units with the same mean and spread.

    Of normal x and x', both of std t, the mean of tanh(x' - x) over x' is about -tanh(x / width),
    width^2 = 1 + pi t^2 / 2, with the mean slope 1 / sqrt(1 + pi t^2): the first leaves an
    equation z - c tanh(z / width) = y for each node by itself, the second gives t.
    """
    mean = (mass * y).sum(1, keepdim=True)
    centred = y - mean
    std = (mass * centred.square()).sum(1, keepdim=True).clamp_(min=1e-12).sqrt_()
    square, steepest = std.square(), torch.ones_like(std)
    for _ in range(SPREAD_ROUNDS):
        slope = (math.pi * square * steepest.square()).add_(1).rsqrt_()
        steepest = (steepest + 1 / (1 - strength * slope).clamp_(min=0.05)) / 2
    width = (math.pi / 2 * square * steepest.square()).add_(1).sqrt_()
    # both bounds of |z| hold; from the nearer one Newton's steps never pass the solution
    size = centred.abs()
    straight, far = size / (1 - strength / width).clamp_(min=0.02), size + strength
    z = torch.where(strength > 0, torch.minimum(straight, far), torch.maximum(straight, far))
    for _ in range(START_STEPS):
        pull = (z / width).tanh_()
        rise = 1 - strength / width * (1 - pull.square())
        z = z - (z - strength * pull - size) / rise.clamp_(min=0.02)
    return z.copysign_(centred).add_(mean)


def _spline_through(values: Tensor) -> Tensor:
    """Coefficients of the spline through the nodes, continued straight at both ends."""
    reach = 12
    steps = torch.arange(1, reach + 1, device=values.device, dtype=values.dtype)
    left = values[:, :1] + (values[:, :1] - values[:, 1:2]) * steps.flip(0)
    right = values[:, -1:] + (values[:, -1:] - values[:, -2:-1]) * steps
    longer = torch.cat((left, values, right), 1)
    layout = Layout("tanh", 1.0, longer.shape[1] - ORDER - 2 * MARGIN, ORDER)
    return Taps(layout, values).apply(longer, IDENTITY, 1)[:, reach:-reach]
