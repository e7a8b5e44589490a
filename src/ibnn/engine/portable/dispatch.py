"""Dispatch: by which method each row is solved, decided on the host by that row alone.

A narrow row is a cubic, a short one is summed term by term, hardtanh is sorted, most lie on a grid
(the method is then its level), and the few that are too long for one have outliers split off.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ibnn._tensors import has_doubles
from ibnn.engine.portable import direct, narrow
from ibnn.engine.portable import layout as layouts
from ibnn.engine.portable.device import BLOCK, octaves_per_grid, rows_per_block, send

DIRECT, SORTED, OUTLIERS, NOT_FINITE, TRIVIAL, NARROW, FLOAT64 = -1, -2, -3, -4, -5, -6, -7

# rows this short are summed term by term
SHORT = 48
# from here on (the threshold is 1) float32 has too few digits, or there are several solutions
STEEP = 0.96


class RowRanges(NamedTuple):
    """What is looked at of each row before it is solved; the ends are those before the slope."""

    low: np.ndarray
    high: np.ndarray
    strength: np.ndarray
    slope: np.ndarray
    atol: np.ndarray

    def tolerance(self, resolution: float) -> np.ndarray:
        """atol, or the fraction `resolution` of the range of slope * z, if that is less."""
        with np.errstate(all="ignore"):
            # z is narrower than y by 1 / (1 - c) at most
            spread = (self.high - self.low) * self.slope / (1 - np.minimum(self.strength, 0))
            return np.where(
                resolution * spread > 0, np.minimum(self.atol, resolution * spread), self.atol
            )


def for_solve(seen: RowRanges, wanted: np.ndarray, y: Tensor, sigma: str) -> np.ndarray:
    """Of a solve to the accuracy `wanted`."""
    low, high, strength, slope, _ = seen
    with np.errstate(all="ignore"):
        spread = (high - low) * slope
        steepest = np.maximum(1 - strength, 1e-12)
        way = _levels(layouts.spans(low * slope, high * slope, strength), strength, y, sigma)
        if y.dtype == torch.float32 and has_doubles(y):
            # rounding of sums of size 1, and what becomes of it in z
            size = np.abs(strength) * np.minimum(spread / steepest, 1)
            lost = 4 * torch.finfo(y.dtype).eps * size > wanted * np.minimum(steepest, 1)
            # a crowd has the grid's error in full, and units far from the origin of a long grid are
            # placed no better than rounding allows; `wanted` is a fifth of what is promised
            grid = layouts.error(way) + torch.finfo(y.dtype).eps / 4 * spread
            lost |= (way >= 0) & (grid * size > 3 * wanted * np.minimum(steepest, 1))
            way[(strength > STEEP) | lost | (way == OUTLIERS)] = FLOAT64
        way[narrow.is_narrow(spread / steepest, strength, sigma, y.dtype)] = NARROW
        way[(strength == 0) | (spread == 0)] = TRIVIAL
        way[~np.isfinite(low + high + strength + slope)] = NOT_FINITE
    return way


def for_adjoint(seen: list[np.ndarray], z: Tensor, sigma: str) -> np.ndarray:
    """Of a linear solve at z, by the ends of its rows and their strength."""
    low, high, strength = seen
    with np.errstate(all="ignore"):
        way = _levels(high - low, strength, z, sigma)
        if z.dtype == torch.float32 and has_doubles(z):
            way[(strength > STEEP) | (way == OUTLIERS)] = FLOAT64
        way[narrow.is_narrow(high - low, strength, sigma, z.dtype)] = NARROW
        way[~np.isfinite(low + high + strength)] = NOT_FINITE
    return way


def for_sums(seen: list[np.ndarray], z: Tensor, sigma: str) -> np.ndarray:
    """Of sums at z, by the ends of its rows."""
    low, high = seen
    with np.errstate(all="ignore"):
        way = _levels(high - low, np.zeros_like(low), z, sigma)
        way[~np.isfinite(low + high)] = NOT_FINITE
    return way


def _levels(span: np.ndarray, strength: np.ndarray, rows: Tensor, sigma: str) -> np.ndarray:
    """The level of each row's grid, given the length that holds it; or the way it goes without."""
    units = rows.shape[1]
    if units <= SHORT:
        return np.full(len(span), DIRECT)
    if sigma == "hardtanh":
        return np.full(len(span), SORTED)
    level = layouts.levels(np.nan_to_num(span), strength)
    beyond = DIRECT if units <= direct.KEPT_UNITS else OUTLIERS
    return np.where(level <= layouts.longest_level(units, sigma, rows.dtype), level, beyond)


def groups(way: np.ndarray, rows: Tensor, sigma: str) -> Iterator[tuple[Tensor | slice, int]]:
    """Blocks of rows that go the same way; those that are not finite are left out."""
    total, units = rows.shape
    found = [int(kind) for kind in np.unique(way)]
    merged = layouts.merge_levels([kind for kind in found if kind >= 0], octaves_per_grid(rows))
    merged |= {kind: [kind] for kind in found if kind < 0 and kind != NOT_FINITE}
    for kind, members in merged.items():
        nodes = layouts.solving(kind, sigma).nodes if kind >= 0 else 0
        most = rows_per_block(rows, nodes)
        most = {DIRECT: direct.rows_per_block(units), OUTLIERS: 1}.get(kind, most)
        if len(found) == len(members):
            size = _evenly(total, most)
            yield from ((slice(i, i + size), kind) for i in range(0, total, size))
            continue
        chosen = send(np.isin(way, members).nonzero()[0], rows)
        yield from ((part, kind) for part in chosen.split(_evenly(len(chosen), most)))


def with_room_for_nodes(
    groups: Iterable[tuple[Tensor | slice, int]], rows: Tensor, sigma: str
) -> Iterator[tuple[list[Tensor | slice], int]]:
    """Blocks of the same way, as many as may be solved on nodes at once: a third of a block's
    numbers, since some twenty tensors are at work there."""
    for kind, found in groupby(groups, key=itemgetter(1)):
        blocks = [block for block, _ in found]
        most = 1
        if kind >= 0:
            most = rows_per_block(rows, layouts.solving(kind, sigma).nodes)
            most = max(1, BLOCK // (3 * most * layouts.starting(kind, sigma).nodes))
        for i in range(0, len(blocks), most):
            yield blocks[i : i + most], kind


def _evenly(total: int, most: int) -> int:
    """Of blocks of at most so many rows, all about the same."""
    return math.ceil(total / math.ceil(total / most))
