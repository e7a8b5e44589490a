"""A bound on the largest eigenvalue of a window's Laplacian, from the transform of its taps."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def product_over_axes(axes: Sequence[Tensor]) -> Tensor:
    """The array of taps that is a product of taps along each axis."""
    result = axes[0]
    for taps in axes[1:]:
        result = result.unsqueeze(-1) * taps
    return result


def window_eigenvalue(axes: Sequence[Tensor]) -> Tensor:
    """1 - min of the transform of w, w a product of taps along each axis that sum to 1.

    That is the largest eigenvalue on a map without borders; taking neighbors away at a border only
    lowers it.
    """
    low = lowest_transform(axes[0])
    for taps in axes[1:]:
        lowest = lowest_transform(taps)
        # products of numbers in [lowest, 1] are smallest with one factor at its own minimum
        low = torch.minimum(torch.minimum(low, lowest), low * lowest)
    return 1 - low


def lowest_transform(taps: Tensor) -> Tensor:
    """A lower bound of f(x) = sum_o taps_o cos(o x) over all x, of k taps >= 0 that sum to 1 with
    taps_-o = taps_o: O(k log k), and memory O(k)."""
    middle = len(taps) // 2
    if not middle:
        return taps[0]
    points = 64 * len(taps)
    half = taps[middle:]
    lowest = 2 * _cosine_sums(half, points).amin() - half[0]
    # f' = 0 at a minimum, and a sample is at most half a spacing of 2 pi / points away: there f is
    # higher by at most max |f''| (pi / points)^2 / 2, and |f''| <= sum_o taps_o o^2
    offsets = torch.arange(middle + 1, dtype=taps.dtype, device=taps.device)
    dip = (half * offsets.square()).sum() * (math.pi / points) ** 2
    # a fast transform rounds log2(points) times, numbers that are at most sum_o taps_o = 1
    return lowest - dip - math.log2(points) * torch.finfo(taps.dtype).eps


# A table of cosines of so few taps has at most 2^14 numbers, 64 KB, and takes about as long as a
# fast transform (31 taps: 1.2 times). It is real: torch.compile makes no code for complex numbers,
# and warns.
_SHORT = 31


def _cosine_sums(half: Tensor, points: int) -> Tensor:
    """sum_o half_o cos(o x), o >= 0, at x = 2 pi j / points, 0 <= x <= pi."""
    if 2 * len(half) - 1 > _SHORT:
        return torch.fft.rfft(half, points).real
    samples = torch.arange(points // 2 + 1, dtype=half.dtype, device=half.device)
    # whole turns are taken off, exactly, while they are integers: a large angle would lose digits
    turns = torch.fmod(samples[:, None] * samples[: len(half)], points)
    # not a product of matrices, which autocast rounds to 8 bits
    return (torch.cos(turns * (2 * math.pi / points)) * half).sum(-1)
