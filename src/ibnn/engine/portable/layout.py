"""Which grid a row gets: decided by that row alone, so that it never depends on its batch."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import torch
from torch import Tensor

# beyond the units: quadrature weights on the nodes fall off by 0.27 (order 4) per node
MARGIN = 6
# the length of the shortest grid
SHORTEST = 4.0
# levels per octave of span, times the three kinds of each
OCTAVE = 3 * 8
# rows from here on are wide: their units are few per cell, and errors average out
WIDE = 2 * OCTAVE + 3
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
    wide: bool = False

    @property
    def nodes(self) -> int:
        return self.cells + self.order + 2 * MARGIN

    def origin(self, middle: Tensor) -> Tensor:
        return middle - self.spacing * (self.nodes - 1) / 2


def spans(low: np.ndarray, high: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """The length within which z of each row is known to stay, given the range of y.

    Both ends move by c at most, and z(y) is no steeper than 1/(1 - c).
    """
    width = high - low
    c = np.maximum(strength, 0)
    steepest = np.where(c < 1, width * c / np.maximum(1 - c, 1e-3), c)
    return width + 2 * np.minimum(c, steepest)


def levels(span: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """A number for the grid of each row: eighths of an octave of its span, from 0 for all the
    shortest ones.

    Each level comes in three: rows near the threshold need finer grids, as errors and the slope
    of z(y) grow up to 1/(1 - c); so do narrow ones, in which an error is a larger fraction.
    """
    eighths = np.ceil(8 * np.log2(np.clip(span / SHORTEST, 1, 2.0**60))).astype(np.int64)
    finest = (strength > 0.8) | (span < 1)
    return 3 * eighths + np.where(finest, 2, strength > 0.2)


def merge_levels(levels: list[int], octaves: float) -> dict[int, list[int]]:
    """Levels that can share the longest grid of them: all narrow ones, wide ones by `octaves`.

    Nodes beyond the units of a row do not change its sums.
    """
    groups: dict[int, list[int]] = {}
    for kind in range(3):
        group: list[int] = []
        for level in sorted((n for n in levels if n % 3 == kind), reverse=True):
            longest = group[0] if group else level
            if _narrow(level) != _narrow(longest) or (
                not _narrow(level) and longest - level > octaves * OCTAVE
            ):
                group = []
            group.append(level)
            groups[group[0]] = group
    return groups


@lru_cache(maxsize=256)
def solving(level: int, sigma: str) -> Layout:
    """A grid on which the solve is right to float32."""
    # the largest error of s_0 and s_1 by a crowd at one place: 1e-6 and 4e-6 for the first two,
    # 3e-6 and 2e-5 for wide rows, 3e-8 and 2e-7 near the threshold, where it grows by 1/(1 - c)
    if level % 3 == 2:
        spacing, order = 1 / 8, 6
    elif _narrow(level):
        spacing, order = (1 / 12, 1 / 16)[level % 3], 4
    else:
        spacing, order = 1 / 4, 6
    layout = _layout(sigma, _span(level), spacing, order)
    wide = not _narrow(level)
    return replace(layout, near_threshold=level % 3 == 2 or (level % 3 == 1 and wide), wide=wide)


def starting(level: int, sigma: str) -> Layout:
    """A grid on which a narrow row is solved first; what it leaves is seen on the other one."""
    if not _narrow(level) or level % 3 == 2:
        return solving(level, sigma)
    return _layout(sigma, _span(level), (1 / 8, 1 / 12)[level % 3], 4)


def error(level: np.ndarray) -> np.ndarray:
    """The largest error of s_0 on a grid for solving."""
    return np.where(level % 3 == 2, 3e-8, np.where(level < WIDE, 1e-6, 3e-6))


def summing(level: int, sigma: str, dtype: torch.dtype) -> Layout:
    """A grid on which sums of s_0 ... s_3 are right to the precision of `dtype`."""
    order, spacing = (6, 1 / 8) if dtype == torch.float32 else (12, 1 / 10)
    return _layout(sigma, _span(level), spacing, order)


def _narrow(level: int) -> bool:
    return level < WIDE


def _span(level: int) -> float:
    return SHORTEST * 2 ** (level // 3 / 8)


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
