"""Units on a uniform grid: spread onto the nodes and gathered back with B-splines."""

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from ibnn.engine.portable.device import node_dtype, on_host
from ibnn.engine.portable.splines import pieces_from_coefficients, weights_from_moments


class Places:
    """Where the units x lie on the nodes t_j = origin + spacing * j of their row.

    A CPU takes one power of the offset after the other, which keeps temporaries small; a device
    takes all of them at once, in few launches.
    """

    def __init__(self, x: Tensor, origin: Tensor, spacing: float, nodes: int, order: int) -> None:
        self.shape, self.nodes, self.order = x.shape, nodes, order
        self.wide, self.at_once = node_dtype(x), not on_host(x)
        # the middle of a cell is half a node on: the nearest one is the cell of the unit
        offset = torch.add(origin / -spacing - 0.5, x, alpha=1 / spacing)
        # a unit outside the grid is kept in its last cell: no write is ever out of bounds
        first, last = order // 2 - 1, nodes - order // 2 - 1
        cell = offset.round().clamp_(first, last)
        self.offset = offset.sub_(cell)
        # by way of int32, which converts in vectors; clamped again, as NaN has no cell
        self.cell = cell.int().clamp_(first, last).long()

    @cached_property
    def _powers(self) -> Tensor:
        """offset^p, (order, rows, units)."""
        exponents = torch.arange(self.order, device=self.offset.device)
        return self.offset.pow(exponents[:, None, None])

    @cached_property
    def _cells(self) -> Tensor:
        return self.cell.expand(self.order, *self.shape)

    def spread(self, a: Tensor | None) -> Tensor:
        """sum_i a_i b(x_i - t_j) for every node j."""
        moments = self.offset.new_zeros(self.order, self.shape[0], self.nodes + self.order)
        if self.at_once:
            powers = self._powers if a is None else self._powers * a
            moments.scatter_add_(2, self._cells, powers)
        else:
            power = torch.ones_like(self.offset) if a is None else a
            for p, moment in enumerate(moments.unbind()):
                if p:
                    power = torch.mul(power, self.offset, out=None if p == 1 else power)
                moment.scatter_add_(1, self.cell, power)
        return weights_from_moments(moments.to(self.wide))

    def spread_both(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """`spread` of None and of a: as a complex number, two cost a CPU little more than one."""
        if self.at_once or self.wide != torch.float32:
            return self.spread(None), self.spread(a)
        moments = torch.view_as_real(self._complex_moments(a)).flatten(2)
        weights = weights_from_moments(moments, 2)
        return weights[:, ::2].contiguous(), weights[:, 1::2].contiguous()

    def _complex_moments(self, a: Tensor) -> Tensor:
        power = torch.complex(torch.ones_like(a), a)
        offset = self.offset.to(power.dtype)
        moments = power.new_zeros(self.order, self.shape[0], self.nodes + self.order)
        for p, moment in enumerate(moments.unbind()):
            if p:
                power.mul_(offset)
            moment.scatter_add_(1, self.cell, power)
        return moments

    def gather(self, coefficients: Tensor) -> Tensor:
        """sum_j coefficients_j b(x_i - t_j) for every unit i."""
        pieces = self._pieces(coefficients)
        if self.at_once:
            return (pieces.gather(2, self._cells) * self._powers).sum(0)
        *lower, last = pieces.unbind()
        value = last.gather(1, self.cell)
        for piece in reversed(lower):
            torch.addcmul(piece.gather(1, self.cell), value, self.offset, out=value)
        return value

    def gather_both(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """`gather` of two functions, as of one that is complex."""
        if self.at_once or self.wide != torch.float32:
            return self.gather(first), self.gather(second)
        found = torch.empty_like(self.offset), torch.empty_like(self.offset)
        half = (self.shape[0] + 1) // 2  # at a time: complex tables are as large as all else
        for part in (slice(i, i + half) for i in range(0, self.shape[0], half)):
            value = self._gather_complex(torch.complex(first[part], second[part]), part)
            found[0][part], found[1][part] = value.real, value.imag
            del value
        return found

    def _gather_complex(self, coefficients: Tensor, part: slice) -> Tensor:
        pairs = torch.view_as_real(coefficients).flatten(1)
        pieces = pieces_from_coefficients(pairs, self.order, 2).unflatten(2, (-1, 2))
        *pieces, last = torch.view_as_complex(pieces).unbind()
        cell, offset = self.cell[part], self.offset[part].to(last.dtype)
        value = last.gather(1, cell)
        for piece in reversed(pieces):
            torch.addcmul(piece.gather(1, cell), value, offset, out=value)
        return value

    def gather_with_derivative(self, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """The same, and its derivative in units of the spacing, at little more than one price."""
        pieces = self._pieces(coefficients)
        if self.at_once:
            here = pieces.gather(2, self._cells)
            factor = torch.arange(1, self.order, device=here.device, dtype=here.dtype)
            derivative = (here[1:] * factor[:, None, None]).mul_(self._powers[:-1]).sum(0)
            return here.mul_(self._powers).sum(0), derivative
        constant, *lower, last = pieces.unbind()
        value = last.gather(1, self.cell)
        derivative = value.clone()
        for piece in reversed(lower):
            torch.addcmul(piece.gather(1, self.cell), value, self.offset, out=value)
            torch.addcmul(value, derivative, self.offset, out=derivative)
        torch.addcmul(constant.gather(1, self.cell), value, self.offset, out=value)
        return value, derivative

    def _pieces(self, coefficients: Tensor) -> Tensor:
        return pieces_from_coefficients(coefficients, self.order).to(self.offset.dtype)


class LongPlaces:
    """The same for rows so long that where their units lie is worked out a stretch at a time."""

    STRETCH = 1 << 16

    def __init__(self, x: Tensor, origin: Tensor, spacing: float, nodes: int, order: int) -> None:
        self.x, self.grid, self.shape = x, (origin, spacing, nodes, order), x.shape

    def _stretches(self) -> Iterator[tuple[slice, Places]]:
        for i in range(0, self.shape[1], self.STRETCH):
            part = slice(i, i + self.STRETCH)
            yield part, Places(self.x[:, part], *self.grid)

    def spread(self, a: Tensor | None) -> Tensor:
        total = self.x.new_zeros(self.shape[0], self.grid[2], dtype=node_dtype(self.x))
        for part, places in self._stretches():
            total += places.spread(None if a is None else a[:, part])
        return total

    def gather(self, coefficients: Tensor) -> Tensor:
        value = torch.empty_like(self.x)
        for part, places in self._stretches():
            value[:, part] = places.gather(coefficients)
        return value

    def spread_both(self, a: Tensor) -> tuple[Tensor, Tensor]:
        return self.spread(None), self.spread(a)

    def gather_both(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return self.gather(first), self.gather(second)

    def gather_with_derivative(self, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        value, derivative = torch.empty_like(self.x), torch.empty_like(self.x)
        for part, places in self._stretches():
            value[:, part], derivative[:, part] = places.gather_with_derivative(coefficients)
        return value, derivative


def locate(
    x: Tensor, origin: Tensor, spacing: float, nodes: int, order: int
) -> Places | LongPlaces:
    kind = Places if x.shape[1] <= 4 * LongPlaces.STRETCH else LongPlaces
    return kind(x, origin, spacing, nodes, order)
