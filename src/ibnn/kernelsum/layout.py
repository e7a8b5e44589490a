"""Which grid a row gets: decided by that row alone, so that it never depends on its batch."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import torch
from torch import Tensor

# beyond the units: quadrature weights on the nodes fall off by 0.27 (order 4) per node
MARGIN = 6
# spans up to here, most of those met in training, share one grid
NARROW = 10.0
# the kernel of arctan holds frequencies this much higher than the others
FINER = {"tanh": 1.0, "erf": 1.0, "arctan": 0.5}


@dataclass(frozen=True)
class Layout:
    """`cells` cells of width `spacing` for the units, and a margin of nodes on both sides."""

    sigma: str
    spacing: float
    cells: int
    order: int
    near_threshold: bool = False

    @property
    def nodes(self) -> int:
        return self.cells + self.order + 2 * MARGIN

    def origin(self, middle: Tensor) -> Tensor:
        return middle - self.spacing * (self.nodes - 1) / 2


def spans(low: Tensor, high: Tensor, strength: Tensor) -> Tensor:
    """The length within which z of each row is known to stay, given the range of y.

    Both ends move by c at most, and z(y) is no steeper than 1/(1 - c).
    """
    width = high - low
    c = strength.clamp(min=0)
    steepest = torch.where(c < 1, width * c / (1 - c).clamp(min=1e-3), c)
    return width + 2 * torch.minimum(c, steepest)


def levels(span: Tensor, strength: Tensor) -> Tensor:
    """A number for the grid of each row: half octaves of its span, from 0 for all the narrow ones.

    Each level comes in three: rows near the threshold need finer grids, as errors and the slope
    of z(y) grow up to 1/(1 - c).
    """
    halves = (2 * (span / NARROW).clamp(1, 2.0**60).log2()).ceil_().long()
    return 3 * halves + (strength > 0.2).long() + (strength > 0.85).long()


def solving(level: int, sigma: str) -> Layout:
    """A grid on which the solve is right to float32."""
    # errors do not average out over units that crowd together in a wide row: at h = 1/4 they are
    # up to 8e-6 for s_1, and grow by 1/(1 - c)
    fine = level < 3 or level % 3 == 2
    layout = _layout(sigma, _span(level), 1 / 8 if fine else 1 / 4, 6)
    return replace(layout, near_threshold=level % 3 > 0)


def guessing(level: int, sigma: str) -> tuple[Layout, int]:
    """A cheaper grid for a first guess, and how many cells of y are enough to describe z(y)."""
    layout = solving(level, sigma)
    if level in (1, 2) or level % 3 == 2:
        return layout, layout.cells
    return replace(layout, order=4), math.ceil(layout.cells / (2.0 if level < 3 else 1.6))


def summing(level: int, sigma: str, dtype: torch.dtype) -> Layout:
    """A grid on which sums of s_0 ... s_3 are right to the precision of `dtype`."""
    order, spacing = (6, 1 / 8) if dtype == torch.float32 else (12, 1 / 10)
    return _layout(sigma, _span(level), spacing, order)


def _span(level: int) -> float:
    return NARROW * 2 ** (level // 3 / 2)


@lru_cache
def longest_level(units: int, sigma: str, dtype: torch.dtype) -> int:
    """The longest grid whose nodes are not many more than the units of the row."""
    make = solving if dtype == torch.float32 else partial(summing, dtype=dtype)
    level = 0
    while make(level + 3, sigma).nodes <= max(2048, 4 * units):
        level += 3
    return level


def _layout(sigma: str, span: float, spacing: float, order: int) -> Layout:
    spacing *= FINER[sigma]
    return Layout(sigma, spacing, math.ceil(span / spacing), order)
