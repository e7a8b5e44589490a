"""The kernels s_n on uniform nodes: a matrix for few nodes, a convolution for many.

With b the B-spline of a grid and b^-1 the inverse of its samples at the nodes,
    s_n(x - t) = sum_jl b(x - t_j) k(t_j - t_l) b(t - t_l),   k = b^-1 * s_n * b^-1 :
the taps k are the samples of s_n with b divided out once for each side that is off the nodes.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ibnn.engine.portable.device import node_dtype, on_host
from ibnn.engine.portable.layout import Layout
from ibnn.engine.portable.splines import node_weights
from ibnn.sigma import built_in

# above this many nodes a convolution is quicker than a matrix; on a device it is three launches
MATRIX_NODES, DEVICE_MATRIX_NODES = 192, 512
# derivative number of the kernel that is 1 at distance 0 and 0 elsewhere
IDENTITY = -2


class Kernel(NamedTuple):
    """s_n on the nodes of a grid, divided by b so many times."""

    sigma: str
    spacing: float
    nodes: int
    order: int
    derivative: int
    divided: int


class Taps:
    """Sums over the nodes of a grid, for tensors like `like`."""

    def __init__(self, layout: Layout, like: Tensor) -> None:
        self.nodes = layout.nodes
        self.dense = self.nodes <= (MATRIX_NODES if on_host(like) else DEVICE_MATRIX_NODES)
        self.key = (layout.sigma, layout.spacing, layout.nodes, layout.order)
        self.like = (node_dtype(like), like.device)

    def apply(self, x: Tensor, derivative: int, divided: int) -> Tensor:
        """sum_l k(t_l - t_j) x_l for every node j, k being s_n divided by b so many times."""
        return self.apply_each(x, (derivative, divided))[0]

    def apply_each(self, x: Tensor, *kinds: tuple[int, int]) -> list[Tensor]:
        """The same for several kernels, each a derivative and how often it is divided."""
        if self.dense:
            return [x @ _matrix(Kernel(*self.key, *kind), *self.like) for kind in kinds]
        size, transforms = _transforms(self.key, kinds, *self.like)
        there, sums = torch.fft.rfft(x, size), []
        for (derivative, _), transform in zip(kinds, transforms, strict=True):
            sums.append(torch.fft.irfft(there * transform, size)[:, : self.nodes])
            if derivative == 0:
                # the steps left out of the transform: nodes above less nodes below
                below = x.cumsum(1)
                sums[-1].add_(below[:, -1:]).sub_(below, alpha=2)
        return sums


# constants of nature, like a table of sines; a training run needs a handful of them
@lru_cache(maxsize=64)
def _matrix(kernel: Kernel, dtype: torch.dtype, device: torch.device) -> Tensor:
    place = torch.arange(kernel.nodes)
    return _taps(kernel)[place[:, None] - place[None, :]].to(device, dtype)


@lru_cache(maxsize=256)
def _transforms(
    grid: tuple[str, float, int, int],
    kinds: tuple[tuple[int, int], ...],
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[int, list[Tensor]]:
    """The length that holds some kernels, and their transforms: one lookup for all of them."""
    kernels = [Kernel(*grid, *kind) for kind in kinds]
    size = _fast_length(grid[2] + max(_reach(kernel, dtype) for kernel in kernels))
    return size, [_transform(kernel, size, dtype, device) for kernel in kernels]


@lru_cache(maxsize=64)
def _reach(kernel: Kernel, dtype: torch.dtype) -> int:
    """How far off a kernel is felt: the room that a transform needs."""
    taps = _without_steps(kernel)[: kernel.nodes].abs()
    return int((taps > torch.finfo(dtype).eps / 64 * taps.max()).nonzero().max())


@lru_cache(maxsize=64)
def _transform(kernel: Kernel, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    taps = _without_steps(kernel)
    far = min(kernel.nodes - 1, size - kernel.nodes)
    circle = taps.new_zeros(size)
    lag = torch.arange(-far, far + 1)
    circle[lag] = taps[-lag]
    complex_dtype = torch.complex64 if dtype == torch.float32 else torch.complex128
    return torch.fft.rfft(circle).to(device, complex_dtype)


def _without_steps(kernel: Kernel) -> Tensor:
    """The taps; of s_0 less its limits -1 and 1, which are running sums: the rest is short."""
    taps = _taps(kernel)
    if kernel.derivative == 0:
        taps[: kernel.nodes] -= 1
        taps[-kernel.nodes :] += 1
        taps[0] += 2
    return taps


def _taps(kernel: Kernel) -> Tensor:
    """k at the lags 0, 1, ...; negative lags count from the end."""
    sigma, spacing, nodes, order, derivative, divided = kernel
    # the samples are mirrored so far outside that dividing by b does not feel it (b^-1 falls
    # off by 0.27 per node for order 4, 0.66 for order 12)
    far = nodes + 20 * order
    lag = torch.arange(4 * far)
    lag = torch.where(lag > 2 * far, lag - 4 * far, lag)
    if derivative == IDENTITY:
        samples = (lag == 0).double()
    else:
        folded = torch.where(lag.abs() > far, (2 * far - lag.abs()) * lag.sign(), lag)
        samples = built_in(sigma).derivative(folded.double() * spacing, derivative)
    angle = torch.arange(2 * far + 1).double() * (2 * math.pi / (4 * far))
    place = torch.arange(order) - (order // 2 - 1)
    spline = node_weights(order) @ torch.cos(place[:, None] * angle)
    return torch.fft.irfft(torch.fft.rfft(samples) / spline**divided, 4 * far)


def _fast_length(least: int) -> int:
    """The length from `least` on that transforms soonest: a power of 2 takes four fifths of the
    time of a 15 * 2^a as long, and those with fewer 2s among their factors up to twice."""
    power = 1 << (least - 1).bit_length()
    best = power
    for odd in (3, 5, 9, 15):
        size = 16 * odd
        while size < least:
            size *= 2
        best = min(best, size)
    return power if power < 1.2 * best else best
