"""Curves over several instances: medians, bands, running means, and where a level is reached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Band:
    """The median of several instances, and the interval that holds a fraction of them."""

    median: float
    low: float
    high: float
    count: int


def band(values: Sequence[float], fraction: float = 0.9) -> Band:
    """Quantiles of the instances themselves: all of them for fraction 1, as the paper counts.

    >>> band([1.0, 2.0, 3.0, 4.0, 10.0], fraction=1.0)
    Band(median=3.0, low=1.0, high=10.0, count=5)
    """
    if not values:
        raise ValueError("values is empty, expected at least one instance")
    outside = (1 - fraction) / 2
    low, middle, high = (float(q) for q in np.quantile(values, [outside, 0.5, 1 - outside]))
    return Band(middle, low, high, len(values))


def running_mean(values: Sequence[float], width: int = 3) -> list[float]:
    """The mean of `width` neighbors around each value; at the ends of those there are.

    >>> running_mean([0.0, 3.0, 6.0, 0.0])
    [1.5, 3.0, 3.0, 3.0]
    """
    before, after = (width - 1) // 2, width // 2
    found = []
    for index in range(len(values)):
        near = values[max(0, index - before) : index + after + 1]
        found.append(sum(near) / len(near))
    return found


def reaches(xs: Sequence[float], ys: Sequence[float], level: float) -> float | None:
    """The first x at which the line through the points reaches a level; None if it never does.

    >>> reaches([0.0, 10.0, 20.0], [1.0, 3.0, 2.0], 2.0)
    5.0
    """
    for index, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if y < level:
            continue
        if index == 0:
            return float(x)
        x0, y0 = xs[index - 1], ys[index - 1]
        return float(x0 + (x - x0) * (level - y0) / (y - y0))
    return None


def needed_for_common_best(
    xs: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> tuple[float, float]:
    """What two curves need for the highest level both of them reach.

    Neither curve is favored: each reaches that level by construction, so that over many pairs
    of like curves the two numbers differ by chance alone.

    >>> needed_for_common_best([1.0, 2.0, 3.0], [0.0, 4.0, 8.0], [0.0, 2.0, 4.0])
    (2.0, 3.0)
    """
    level = min(max(first), max(second))
    found = reaches(xs, first, level), reaches(xs, second, level)
    assert found[0] is not None
    assert found[1] is not None
    return found[0], found[1]


def median_curve(curves: Mapping[int, Sequence[float]]) -> list[float]:
    """The median over instances at every place of equally long curves.

    >>> median_curve({0: [1.0, 2.0], 1: [3.0, 2.0], 2: [9.0, 0.0]})
    [3.0, 2.0]
    """
    return [float(value) for value in np.median(np.array(list(curves.values())), axis=0)]
