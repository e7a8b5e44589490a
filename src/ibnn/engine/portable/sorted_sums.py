"""Exact sums for hardtanh: after one sort, each unit sees a stretch of neighbors within 1.

B(z)_i = (units above - units below + sum over the stretch of z_k - z_i) / D, and P_1(z, a) is a sum
of a over the stretch: differences of running sums, in float64 whatever the units are.
"""

import torch
from torch import Tensor

from ibnn.engine.portable.unit_cg import UnitField


class SortedField(UnitField):
    def __init__(self, z: Tensor) -> None:
        self.order: Tensor | None = None
        if (z[:, 1:] < z[:, :-1]).any():
            z, self.order = torch.sort(z, dim=1)
            self.back = torch.empty_like(self.order)
            place = torch.arange(z.shape[1], device=z.device).expand_as(self.order)
            self.back.scatter_(1, self.order, place)
        z = z.contiguous()
        self.first = torch.searchsorted(z, z - 1, right=True)
        self.last = torch.searchsorted(z, z + 1)
        # next to a unit of 1e30 rounding leaves no unit within 1, not even itself
        place = torch.arange(z.shape[1], device=z.device)
        self.first, self.last = self.first.clamp(max=place), self.last.clamp(min=place + 1)
        # gaps longer than 2 are all alike, and shortened they keep the running sums small
        gaps = z.double().diff(dim=1).clamp_(max=2)
        self.position = torch.nn.functional.pad(gaps.cumsum(1), (1, 0))
        self.dtype, self.units = z.dtype, z.shape[1]
        inside = (self.last - self.first).double()
        near = self._stretch(self.position) - inside * self.position
        self.bias = self._unsort(near + (self.units - self.last) - self.first)
        self.slope = self._unsort(inside)

    def pulled(self, v: Tensor) -> Tensor:
        return self._unsort(self._stretch(self._sort(v)))

    def weighted_bias(self, a: Tensor) -> Tensor:
        """P_0(z, a)."""
        a = self._sort(a)
        near = self._stretch(a * self.position) - self._stretch(a) * self.position
        return self._unsort(near + self._beyond(a))

    def primitive(self, z: Tensor, a: Tensor | None) -> Tensor:
        """P_-1(z, a): (z_k - z_i)^2 / 2 within the stretch, |z_k - z_i| - 1/2 beyond it."""
        x = self._sort(z)
        weight = torch.ones_like(x) if a is None else self._sort(a)
        mass, moment, square = weight, weight * x, weight * x * x
        near = self._stretch(square) - 2 * x * self._stretch(moment) + x * x * self._stretch(mass)
        far = self._beyond(moment) - x * self._beyond(mass)
        outside = mass.sum(1, keepdim=True) - self._stretch(mass)
        return self._unsort(near / 2 + far - outside / 2)

    def _beyond(self, x: Tensor) -> Tensor:
        """The sum above the stretch less that below it."""
        total = torch.nn.functional.pad(x.cumsum(1), (1, 0))
        return total[:, -1:] - total.gather(1, self.last) - total.gather(1, self.first)

    def _stretch(self, x: Tensor) -> Tensor:
        total = torch.nn.functional.pad(x.cumsum(1), (1, 0))
        return total.gather(1, self.last) - total.gather(1, self.first)

    def _sort(self, x: Tensor) -> Tensor:
        return (x if self.order is None else x.gather(1, self.order)).double()

    def _unsort(self, x: Tensor) -> Tensor:
        x = (x / self.units).to(self.dtype)
        return x if self.order is None else x.gather(1, self.back)


def sorted_sum(z: Tensor, a: Tensor | None, order: int) -> Tensor:
    """(1/D) sum_k a_k s_n(z_k - z_i) for hardtanh."""
    if order > 1:
        return torch.zeros_like(z)
    field = SortedField(z)
    if order < 0:
        return field.primitive(z, a)
    if a is None:
        return field.bias if order == 0 else field.slope
    return field.pulled(a) if order == 1 else field.weighted_bias(a)
