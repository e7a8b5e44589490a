"""Units on a uniform grid: spread onto the nodes and gathered back with B-splines."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ibnn.kernelsum.splines import pieces_from_coefficients, weights_from_moments


class Places:
    """Where the units x lie on the nodes t_j = origin + spacing * j of their row."""

    def __init__(
        self, x: Tensor, origin: Tensor, spacing: float | Tensor, nodes: int, order: int
    ) -> None:
        self.shape, self.nodes, self.order = x.shape, nodes, order
        # the middle of a cell is half a node on: the nearest one is the cell of the unit
        offset = x.sub(origin + spacing / 2).mul_(1 / spacing)
        # a unit outside the grid is kept in its last cell: no write is ever out of bounds
        cell = offset.round().clamp_(order // 2 - 1, nodes - order // 2 - 1)
        self.offset = offset.sub_(cell)
        # by way of int32, which converts in vectors
        self.cell = cell.int().long()

    def spread(self, a: Tensor | None) -> Tensor:
        """sum_i a_i b(x_i - t_j) for every node j."""
        moments = self.offset.new_empty(self.order, self.shape[0], self.nodes)
        even = torch.ones_like(self.offset) if a is None else a
        odd = self.offset if a is None else a * self.offset
        square = self.offset * self.offset if self.order > 2 else None
        for p in range(0, self.order, 2):
            # a complex scatter adds two real numbers at the price of one
            pair = torch.complex(even, odd)
            total = pair.new_zeros(moments.shape[1:]).scatter_add_(1, self.cell, pair)
            moments[p], moments[p + 1] = total.real, total.imag
            if square is not None and p + 2 < self.order:
                even, odd = even * square, odd * square
        return weights_from_moments(moments, self.order)

    def gather(self, coefficients: Tensor) -> Tensor:
        """sum_j coefficients_j b(x_i - t_j) for every unit i."""
        value = None
        for low, high in self._powers(coefficients):
            above = high if value is None else torch.addcmul(high, value, self.offset, out=value)
            value = torch.addcmul(low, above, self.offset)
        assert value is not None
        return value

    def gather_with_derivative(self, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """The same, and its derivative in units of the spacing, at little more than one price."""
        value = derivative = None
        for low, high in self._powers(coefficients):
            if value is None or derivative is None:
                value, derivative = torch.addcmul(low, high, self.offset), high.contiguous()
                continue
            for power in (high, low):
                derivative = torch.addcmul(value, derivative, self.offset, out=derivative)
                value = torch.addcmul(power, value, self.offset, out=value)
        assert value is not None
        assert derivative is not None
        return value, derivative

    def _powers(self, coefficients: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The factors of offset^p and offset^(p+1) at the units, highest p first."""
        pieces = pieces_from_coefficients(coefficients, self.order)
        for p in reversed(range(0, self.order, 2)):
            pair = torch.complex(pieces[p], pieces[p + 1]).view(coefficients.shape)
            both = pair.gather(1, self.cell)
            yield both.real, both.imag


class LongPlaces:
    """The same for rows so long that where their units lie is worked out a stretch at a time."""

    STRETCH = 1 << 16

    def __init__(
        self, x: Tensor, origin: Tensor, spacing: float | Tensor, nodes: int, order: int
    ) -> None:
        self.x, self.grid, self.shape = x, (origin, spacing, nodes, order), x.shape

    def _stretches(self) -> Iterator[tuple[slice, Places]]:
        for i in range(0, self.shape[1], self.STRETCH):
            part = slice(i, i + self.STRETCH)
            yield part, Places(self.x[:, part], *self.grid)

    def spread(self, a: Tensor | None) -> Tensor:
        total = self.x.new_zeros(self.shape[0], self.grid[2])
        for part, places in self._stretches():
            total += places.spread(None if a is None else a[:, part])
        return total

    def gather(self, coefficients: Tensor) -> Tensor:
        value = torch.empty_like(self.x)
        for part, places in self._stretches():
            value[:, part] = places.gather(coefficients)
        return value

    def gather_with_derivative(self, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        value, derivative = torch.empty_like(self.x), torch.empty_like(self.x)
        for part, places in self._stretches():
            value[:, part], derivative[:, part] = places.gather_with_derivative(coefficients)
        return value, derivative


def locate(
    x: Tensor, origin: Tensor, spacing: float | Tensor, nodes: int, order: int
) -> Places | LongPlaces:
    kind = Places if x.shape[1] <= 4 * LongPlaces.STRETCH else LongPlaces
    return kind(x, origin, spacing, nodes, order)
