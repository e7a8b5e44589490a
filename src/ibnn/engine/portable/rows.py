"""The three functions behind `Uniform`, in torch ops that run on any device.

Rows go one of four ways, each row by itself: short ones are summed term by term, hardtanh is
sorted, most lie on a grid, and the few that are too long for one are split by a window.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from ibnn.engine.portable import layout as layouts
from ibnn.engine.portable.direct import KEPT_UNITS, DirectField, direct_sum, rows_per_block
from ibnn.engine.portable.equation import Field
from ibnn.engine.portable.fine_field import FineField
from ibnn.engine.portable.grid_field import GridField
from ibnn.engine.portable.node_guess import NodeGuess
from ibnn.engine.portable.outliers import WindowField
from ibnn.engine.portable.sorted_sums import SortedField, sorted_sum
from ibnn.engine.portable.unit_cg import UnitField
from ibnn.engine.portable.unit_newton import descend, newton
from ibnn.sigma import lookup

# rows this short are summed term by term
SHORT = 48
# elements of one temporary: smaller ones cost calls, larger ones memory (a megabyte in float32)
BLOCK = 1 << 18
# from here on (the threshold is 1) there may be several solutions
STEEP = 0.98

# ways a row can go, besides the level of its grid
TERM_BY_TERM, SORTED, WINDOW, NOT_FINITE, STILL = -1, -2, -3, -4, -5


def pair_sum(z: Tensor, a: Tensor | None, order: int, sigma: str) -> Tensor:
    """(1/D) sum_k a_k s_n(z_k - z_i) for every unit i of every row."""
    result = torch.full_like(z, torch.nan)
    for rows, way in _ways(z, z.new_zeros(len(z)), sigma, solved=True):
        part, some = z[rows], None if a is None else a[rows]
        if way == TERM_BY_TERM:
            result[rows] = direct_sum(part, some, order, lookup(sigma))
        elif way == SORTED:
            result[rows] = sorted_sum(part, some, order)
        elif way == WINDOW:
            result[rows] = WindowField(part, sigma).pair_sum(some, order)
        else:
            layout = layouts.summing(way, sigma, z.dtype)
            result[rows] = GridField(part, _middle(part), layout).pair_sum(some, order)
    return result


def find_roots(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str
) -> tuple[Tensor, Tensor, Tensor]:
    """z with z + strength * P_0(z, 1) = y, the largest residual and the steps of each row."""
    z = torch.full_like(y, torch.nan)
    residual = torch.full_like(strength, torch.inf)
    steps = torch.zeros(len(y), dtype=torch.int32, device=y.device)
    for rows, way in _ways(y, strength, sigma):
        if way == STILL:
            z[rows], residual[rows] = y[rows], 0
            continue
        problem = y[rows], strength[rows, None], atol[rows, None], sigma, way
        found = _roots_on_grid(*problem) if way >= 0 else _roots(*problem)
        z[rows], residual[rows], steps[rows] = found
    return z, residual, steps


def solve_jacobian(
    z: Tensor, g: Tensor, strength: Tensor, sigma: str, with_strength_grad: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """v with J(z) v = g, the relative residual of each row, and v . P_0(z, 1) of each row."""
    v = torch.full_like(g, torch.nan)
    residual, dot = torch.full_like(strength, torch.inf), torch.full_like(strength, torch.nan)
    exact = 5e-6 if z.dtype == torch.float32 else 1e-12
    for rows, way in _ways(z, strength, sigma, solved=True):
        part, right, c = z[rows], g[rows], strength[rows, None]
        field = _field(part, _middle(part), sigma, way)
        solve = field.solve_refined if isinstance(field, FineField) else field.solve
        found, residual[rows] = solve(right, c, exact)
        # J is the identity there, bit by bit
        v[rows] = found = torch.where(c == 0, right, found)
        dot[rows] = (found * field.bias).sum(1) if with_strength_grad else 0
    return v, residual, dot


def _roots(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str, way: int
) -> tuple[Tensor, Tensor, Tensor]:
    """On the units alone."""

    def field_at(z: Tensor, rows: Tensor | None) -> Field:
        return _field(z, middle if rows is None else middle[rows], sigma, way, rough=True)

    middle = _middle(y)
    start = y if (strength < STEEP).all() else descend(y, strength, field_at)
    return newton(y, strength, atol, start, field_at)


def _roots_on_grid(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str, level: int
) -> tuple[Tensor, Tensor, Tensor]:
    """On nodes first, then on the units, most of which are right at once."""
    if (strength >= STEEP).any():
        return _roots(y, strength, atol, sigma, level)
    layout, cells = layouts.guessing(level, sigma)
    low, high = y.amin(1, keepdim=True), y.amax(1, keepdim=True)
    guess = NodeGuess(low, high, strength, 0.4 * atol / strength.abs().clamp(min=1), layout, cells)
    step = max(1, BLOCK // y.shape[1])
    blocks = [slice(i, i + step) for i in range(0, len(y), step)]
    places = None
    for rows in blocks:
        places = guess.places(y[rows], rows)
        guess.count(places, rows)
    steps = guess.solve()
    found = []
    for rows in blocks:
        near = guess.middle[rows]
        # a single block has not moved since
        if places is None or len(blocks) > 1:
            places = guess.places(y[rows], rows)
        start = guess.at(y[rows], places, rows)
        places = None

        def field_at(z: Tensor, some: Tensor | None, near: Tensor = near) -> Field:
            return _field(z, near if some is None else near[some], sigma, level, rough=True)

        reach = low[rows], high[rows]
        found.append(newton(y[rows], strength[rows], atol[rows], start, field_at, reach))
        steps[rows] += found[-1][2]
    z, residual, _ = found[0] if len(found) == 1 else map(torch.cat, zip(*found, strict=True))
    return z, residual, steps


def _field(
    z: Tensor, middle: Tensor, sigma: str, way: int, rough: bool = False
) -> UnitField | GridField | FineField:
    if way == TERM_BY_TERM:
        return DirectField(z, lookup(sigma))
    if way == SORTED:
        return SortedField(z)
    if way == WINDOW:
        return WindowField(z, sigma)
    if z.dtype == torch.float32:
        return GridField(z, middle, layouts.solving(way, sigma), rough=rough)
    return FineField(z, middle, way, sigma)


def _ways(
    y: Tensor, strength: Tensor, sigma: str, solved: bool = False
) -> Iterator[tuple[Tensor | slice, int]]:
    """Blocks of rows that go the same way; rows that are not finite are left out.

    With `solved` y is a z that stays where it is.
    """
    units = y.shape[1]
    if not units or not len(y):
        return
    low, high = y.amin(1), y.amax(1)
    finite = low.isfinite() & high.isfinite() & strength.isfinite()
    if units <= SHORT:
        way = torch.full_like(finite, TERM_BY_TERM, dtype=torch.int64)
    elif sigma == "hardtanh":
        way = torch.full_like(finite, SORTED, dtype=torch.int64)
    else:
        span = high - low if solved else layouts.spans(low, high, strength)
        way = layouts.levels(span, strength)
        longest = layouts.longest_level(units, sigma, y.dtype)
        beyond = TERM_BY_TERM if units <= KEPT_UNITS else WINDOW
        way = torch.where(way <= longest, way, beyond)
    if not solved:
        way = torch.where(strength == 0, STILL, way)
    way = torch.where(finite, way, NOT_FINITE)
    found = way.unique().tolist()
    groups = layouts.together([kind for kind in found if kind >= 0])
    groups |= {kind: [kind] for kind in found if kind < 0 and kind != NOT_FINITE}
    for kind, members in groups.items():
        chosen = (way >= members[-1]) & (way <= members[0]) if kind >= 0 else way == kind
        if len(members) > 1:
            chosen &= way % 3 == kind % 3
        rows = chosen.nonzero().squeeze(1)
        size = {TERM_BY_TERM: rows_per_block(units), WINDOW: 1, STILL: len(y)}.get(
            kind, max(1, BLOCK // units)
        )
        if kind >= 0 and not solved:
            # nodes are fewer than units: more rows at a time
            size = max(size, BLOCK // (2 * layouts.guessing(kind, sigma)[0].nodes))
        if len(rows) == len(y):
            yield from ((slice(i, i + size), kind) for i in range(0, len(y), size))
        else:
            yield from ((part, kind) for part in rows.split(size))


def _middle(z: Tensor) -> Tensor:
    low, high = z.amin(1, keepdim=True), z.amax(1, keepdim=True)
    return low + (high - low) / 2
