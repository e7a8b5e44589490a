"""Window coupling: each unit is coupled to its spatial neighborhood."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from ibnn import sigma as sigmas
from ibnn.coupling.coupling import Coupling
from ibnn.coupling.sums import REGISTRY, PairSums, laplacian_eigenvalue
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
        """Of a map without borders, which only lower it: the sum of w less the least value of its
        transform. Of a small map, itself."""
        w, count = weight.to("cpu", torch.float64), math.prod(units)
        if count <= 256:
            one = torch.eye(count, dtype=torch.float64)
            return laplacian_eigenvalue(
                self.pair_sum(torch.zeros_like(one), one, w, 1, sigmas.TANH, units)
            )
        size = (4096, 512, 64)[w.ndim - 1]
        circle = torch.nn.functional.pad(w, [n for k in w.shape[::-1] for n in (0, size - k)])
        circle = circle.roll([-(k // 2) for k in w.shape], tuple(range(w.ndim)))
        return float(w.sum() - torch.fft.fftn(circle).real.min())


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


WINDOW = REGISTRY.register(WindowSums())


class Window(Coupling):
    """w_ik = a fixed profile of the offset k - i, over the last one to three dims.

    At the borders the weight of missing neighbors is added to w_ii, which has no effect: w is
    symmetric everywhere.

    Examples:
        >>> Window((3, 3)).weight()[1]
        tensor([0.1111, 0.1111, 0.1111])

    Args:
        kernel_size: odd in each dim; a single number means one dim, or all spatial dims of the
            convolution it is given to.
        profile: "box" or "gaussian".
        std: standard deviation of a gaussian, in units (default: kernel_size / 4).
        learnable: whether `std` is a parameter.
    """

    sums = WINDOW
    std: Tensor

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        profile: str = "box",
        std: float | None = None,
        learnable: bool = False,
    ) -> None:
        super().__init__()
        self.single = not isinstance(kernel_size, Iterable)
        given = kernel_size if isinstance(kernel_size, Iterable) else (kernel_size,)
        size = tuple(int(k) if isinstance(k, Integral) else 0 for k in given)
        if not 1 <= len(size) <= 3 or any(k < 1 or k % 2 == 0 for k in size):
            raise ValueError(
                f"kernel_size must be one to three odd ints (w_ik = w_ki), got {kernel_size!r}"
            )
        if profile not in ("box", "gaussian"):
            raise ValueError(f"profile={profile!r} is not known; expected 'box' or 'gaussian'")
        if profile == "box" and (std is not None or learnable):
            raise ValueError("a box has no std: use profile='gaussian' to set or learn one")
        if std is not None and not (math.isfinite(std) and std > 0):
            raise ValueError(f"std must be positive, got {std!r}")
        self.kernel_size = size
        self.profile = profile
        self.dims = tuple(range(-len(size), 0))
        self.learnable = learnable
        self._given_std = max(size) / 4 if std is None else float(std)
        value = torch.tensor(self._given_std, device="cpu")
        # a layer needs it when it leaves the meta device
        self._first_values = {"std": value}
        here = value.to(torch.get_default_device())
        if learnable:
            self.std = nn.Parameter(here)
        else:
            self.register_buffer("std", here, persistent=False)
        # a fixed one as a number, which torch.export needs
        exact = torch.tensor(self._given_std, dtype=torch.float64, device="cpu")
        self._eigenvalue = None if learnable else float(self._eigenvalue_at(exact))

    def weight(
        self, dtype: torch.dtype | None = None, units: Sequence[int] | None = None
    ) -> Tensor:
        std = self.std if dtype is None else self.std.to(dtype)
        if not self.learnable:  # as exact as it was given, whatever the layer's dtype has been
            std = torch.full_like(std, self._given_std)
        taps = [self._taps(size, std) for size in self.kernel_size]
        result = taps[0]
        for tap in taps[1:]:
            result = result.unsqueeze(-1) * tap
        return result

    def largest_eigenvalue(self) -> "float | Tensor":
        """1 - min of the transform of w: taking neighbors away at a border only lowers it."""
        return self._eigenvalue_at(self.std) if self._eigenvalue is None else self._eigenvalue

    def for_layer(self, spatial_dims: int) -> "Window":
        if self.single and spatial_dims > 1:
            std = self._std_number() if self.profile == "gaussian" else None
            return Window(self.kernel_size * spatial_dims, self.profile, std, self.learnable)
        if len(self.kernel_size) != spatial_dims:
            raise ValueError(
                f"Window has {len(self.kernel_size)} dims, but the layer has {spatial_dims}"
            )
        return self

    def config(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {"kind": "Window", "kernel_size": list(self.kernel_size)}
        chosen["profile"] = self.profile
        if self.learnable:
            return {**chosen, "learnable": True}
        return chosen if self.profile == "box" else {**chosen, "std": self._std_number()}

    def extra_repr(self) -> str:
        size = self.kernel_size[0] if self.single else self.kernel_size
        shape = "" if self.profile == "box" else f", std={self._std_number():.3g}"
        return f"{size}, {self.profile}{shape}" + (", learnable=True" if self.learnable else "")

    def _std_number(self) -> float:
        given = self.std.is_meta or not self.learnable
        return self._given_std if given else float(self.std.detach())

    def _taps(self, size: int, std: Tensor) -> Tensor:
        if self.profile == "box":
            return torch.full((size,), 1 / size, dtype=std.dtype, device=std.device)
        offsets = torch.arange(size, dtype=std.dtype, device=std.device) - size // 2
        return torch.softmax(-((offsets / std) ** 2) / 2, 0)

    def _eigenvalue_at(self, std: Tensor) -> Tensor:
        low = None
        for size in self.kernel_size:
            lowest = self._lowest_transform(size, std)
            # products of numbers in [lowest, 1] are smallest with one factor at its own minimum
            low = lowest if low is None else torch.minimum(torch.minimum(low, lowest), low * lowest)
        assert low is not None
        return 1 - low

    def _lowest_transform(self, size: int, std: Tensor) -> Tensor:
        taps = self._taps(size, std)
        points = 64 * size
        angle = torch.linspace(0, math.pi, points, dtype=taps.dtype, device=taps.device)
        offsets = torch.arange(size, dtype=taps.dtype, device=taps.device) - size // 2
        lowest = (torch.cos(angle[:, None] * offsets) @ taps).amin()
        # between two samples the transform can dip by at most |f''| (spacing / 2)^2 / 2
        return lowest - (size // 2 * math.pi / (points - 1) / 2) ** 2 / 2


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
