"""The sums of a window of weights: each unit with the neighbors at a few offsets."""

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ibnn import sigma as sigmas
from ibnn.coupling.sums import REGISTRY, PairSums, laplacian_eigenvalue
from ibnn.coupling.window_eigenvalue import product_over_axes, window_eigenvalue
from ibnn.sigma import Sigma


class WindowSums(PairSums):
    """w is a small array of taps, one per offset k - i."""

    name = "window"

    def pair_sum(
        self,
        z: Tensor,
        a: Tensor | None,
        weight: Tensor | None,
        order: int,
        sigma: Sigma,
        units: Sequence[int],
    ) -> Tensor:
        assert weight is not None
        maps = z.reshape(-1, *units)
        factors = None if a is None else a.reshape(maps.shape)
        if _prefers_few_ops(z):
            return _all_offsets(maps, factors, weight, order, sigma).reshape(z.shape)
        at_zero = float(sigma.derivative(torch.zeros(1, dtype=torch.float64), order))
        center = weight[tuple(size // 2 for size in weight.shape)] * at_zero
        result = center * (torch.ones_like(maps) if factors is None else factors)
        parity = -1 if order % 2 == 0 else 1
        for tap, opposite, low, high in _half_of_the_pairs(weight.shape, units):
            values = sigma.derivative(maps[high] - maps[low], order)
            for here, there, w, sign in (
                (low, high, weight[tap], 1),
                (high, low, weight[opposite], parity),
            ):
                scaled = values * (sign * w)
                result[here] += scaled if factors is None else scaled * factors[there]
        return result.reshape(z.shape)

    def pair_outer(
        self,
        z: Tensor,
        g: Tensor,
        a: Tensor | None,
        weight: Tensor,
        order: int,
        sigma: Sigma,
        units: Sequence[int],
    ) -> Tensor:
        maps, left = z.reshape(-1, *units), g.reshape(-1, *units)
        right = torch.ones_like(maps) if a is None else a.reshape(maps.shape)
        at_zero = float(sigma.derivative(torch.zeros(1, dtype=torch.float64), order))
        result = torch.zeros_like(weight)
        result[tuple(size // 2 for size in weight.shape)] = (left * right).sum() * at_zero
        parity = -1 if order % 2 == 0 else 1
        for tap, opposite, low, high in _half_of_the_pairs(weight.shape, units):
            values = sigma.derivative(maps[high] - maps[low], order)
            result[tap] = (values * left[low] * right[high]).sum()
            result[opposite] = (values * left[high] * right[low]).sum() * parity
        return result

    def transpose(self, weight: Tensor) -> Tensor:
        return weight.flip(tuple(range(weight.ndim)))

    def self_weight(self, weight: Tensor | None, units: Sequence[int]) -> Tensor:
        assert weight is not None
        return weight[tuple(size // 2 for size in weight.shape)]

    def eigenvalue_bound(self, weight: Tensor | None) -> float:
        return float(self.unread_bound(weight))

    def unread_bound(self, weight: Tensor | None) -> Tensor:
        assert weight is not None
        return 2 * (weight.sum() - self.self_weight(weight, ()))

    def largest_eigenvalue(self, weight: Tensor, units: Sequence[int]) -> float:
        """Of a map without borders, which only lower it; of a small map, itself."""
        w, count = weight.to("cpu", torch.float64), math.prod(units)
        if count <= 256:
            one = torch.eye(count, dtype=torch.float64)
            return laplacian_eigenvalue(
                self.pair_sum(torch.zeros_like(one), one, w, 1, sigmas.TANH, units)
            )
        total = w.sum()
        others = [[d for d in range(w.ndim) if d != axis] for axis in range(w.ndim)]
        axes = [(w.sum(dims) if dims else w) / total for dims in others]
        # a product up to the rounding of float32; taps of a user's own need not be one
        if not torch.allclose(product_over_axes(axes), w / total, rtol=1e-6, atol=1e-30):
            return self.eigenvalue_bound(weight)
        return float(total * window_eigenvalue(axes))


# numbers of one temporary of a device: 64 MB in float32
_BLOCK = 1 << 24


def _prefers_few_ops(z: Tensor) -> bool:
    """A device does: a loop over the offsets would be six launches for each of them."""
    return z.device.type != "cpu"


def _all_offsets(
    maps: Tensor, factors: Tensor | None, weight: Tensor, order: int, sigma: Sigma
) -> Tensor:
    """P_n of whole maps, all offsets at once, in blocks of maps: a dozen ops for each block."""
    units, taps = maps.shape[1:], weight.ndim
    pads = [size // 2 for size in reversed(weight.shape) for _ in range(2)]

    def windows(x: Tensor) -> Tensor:
        """(maps, units, offsets): what each unit sees, 0 beyond the border."""
        x = torch.nn.functional.pad(x, pads)
        for dim, size in enumerate(weight.shape):
            x = x.unfold(1 + dim, size, 1)
        return x

    present = windows(torch.ones_like(maps[:1])) * weight
    result = torch.empty_like(maps)
    for i in range(0, len(maps), step := max(1, _BLOCK // present.numel())):
        block = slice(i, i + step)
        here = maps[block][(..., *(None,) * taps)]
        values = sigma.derivative(windows(maps[block]) - here, order) * present
        if factors is not None:
            values = values * windows(factors[block])
        result[block] = values.sum(tuple(range(-taps, 0)))
    return result.reshape(-1, *units)


Index = tuple[slice | int, ...]


def _half_of_the_pairs(
    kernel: Sequence[int], units: Sequence[int]
) -> Iterator[tuple[Index, Index, tuple[slice, ...], tuple[slice, ...]]]:
    """One of each two opposite offsets: its tap, the opposite tap, and the two slices of the maps
    whose units are that far apart."""
    center = tuple(size // 2 for size in kernel)
    for tap in itertools.product(*(range(size) for size in kernel)):
        offset = tuple(t - c for t, c in zip(tap, center, strict=True))
        if offset <= (0,) * len(offset) or any(
            abs(o) >= n for o, n in zip(offset, units, strict=True)
        ):
            continue
        low, high = [slice(None)], [slice(None)]
        for o, n in zip(offset, units, strict=True):
            low.append(slice(max(0, -o), n - max(0, o)))
            high.append(slice(max(0, o), n - max(0, -o)))
        opposite = tuple(c - o for c, o in zip(center, offset, strict=True))
        yield tap, opposite, tuple(low), tuple(high)


WINDOW = REGISTRY.register(WindowSums())
