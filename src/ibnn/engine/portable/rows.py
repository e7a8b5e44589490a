"""The three functions behind `Uniform`, in torch ops that run on any device.

Each row goes its own way: a narrow one is a cubic, a short one is summed term by term, hardtanh is
sorted, most lie on a grid, and the few that are too long for one are split by a window. What
float32 cannot resolve, or did not, is done again in float64 where the device has it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from ibnn.engine.portable import layout as layouts
from ibnn.engine.portable import narrow
from ibnn.engine.portable.adjoint import solve_adjoint
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
# from here on (the threshold is 1) float32 has too few digits, or there are several solutions
STEEP = 0.96
# the relative error wanted of a gradient, and the rounds of correction it may take
WANTED = {torch.float32: 2e-5, torch.float64: 2e-10}
ROUNDS = {torch.float32: 3, torch.float64: 8}

# ways a row can go, besides the level of its grid
TERM_BY_TERM, SORTED, WINDOW, NOT_FINITE, STILL, NARROW, PRECISE = -1, -2, -3, -4, -5, -6, -7


def find_roots(
    y: Tensor, slope: Tensor, strength: Tensor, atol: Tensor, sigma: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z such that slope * z solves the equation of slope * y, to `atol` of slope * z.

    Of each row also the largest residual of slope * z, the steps, and whether it is solved.
    """
    exact = _exact(y)
    z = torch.full_like(y, torch.nan)
    residual = y.new_full((len(y),), torch.inf)
    steps = torch.zeros(len(y), dtype=torch.int32, device=y.device)
    solved = torch.zeros(len(y), dtype=torch.bool, device=y.device)
    if not y.numel():
        return z, residual, steps, solved
    c, p = strength.to(exact), slope.to(exact)
    slope, atol = slope.to(y.dtype), atol.to(y.dtype)
    low, high = y.amin(1).to(exact), y.amax(1).to(exact)
    # the place of a row's range next to 0: subtracting it costs no unit any digits
    origin = torch.zeros_like(low).clamp(low, high)
    way = _ways_forward(y, low, high, c, p, atol, sigma)
    for rows, kind in _groups(way, y, sigma, solved=False):
        if kind == STILL:
            z[rows], residual[rows], solved[rows] = y[rows], 0, True
            continue
        if kind == PRECISE:
            continue
        part, scale = y[rows], p[rows, None]
        if kind == NARROW:
            apart, mean = narrow.centered(part.to(exact))
            found, left = narrow.find_roots(apart * scale, c[rows, None], sigma)
            z[rows], residual[rows] = (mean + found / scale).to(y.dtype), left.to(y.dtype)
            steps[rows], solved[rows] = narrow.STEPS, True
            continue
        near = origin[rows, None].to(y.dtype)
        x = (part - near) * slope[rows, None]
        problem = x, strength[rows, None].to(y.dtype), atol[rows, None], sigma, kind
        found, residual[rows], steps[rows], excess = (
            _roots_on_grid(*problem) if kind >= 0 else _roots(*problem)
        )
        z[rows] = near + found / slope[rows, None]
        solved[rows] = excess <= 2
    if y.dtype != exact:
        again = (~solved & (way != NOT_FINITE)).nonzero().squeeze(1)
        if len(again):
            found = find_roots(y[again].to(exact), p[again], c[again], atol[again].to(exact), sigma)
            z[again], residual[again] = found[0].to(y.dtype), found[1].to(y.dtype)
            steps[again] += found[2]
            solved[again] = found[3]
    return z, residual, steps, solved


def solve_jacobian(
    z: Tensor, g: Tensor, strength: Tensor, sigma: str
) -> tuple[Tensor, Tensor, Tensor]:
    """v with J(z) v = g, a bound of its relative error, and v . P_0(z, 1), of each row."""
    exact = _exact(z)
    v = torch.full_like(g, torch.nan)
    error, dot = torch.full_like(strength, torch.inf), torch.full_like(strength, torch.nan)
    if not z.numel():
        return v, error, dot
    c = strength.to(exact)
    low, high = z.amin(1), z.amax(1)
    origin = torch.zeros_like(low).clamp(low, high)
    # squares of numbers far from 1 would under- or overflow
    size = g.abs().amax(1, keepdim=True)
    size = torch.where((size > 0) & size.isfinite(), size, 1)
    way = _ways_backward(z, low, high, c, sigma)
    for rows, kind in _groups(way, z, sigma, solved=True):
        if kind == PRECISE:
            continue
        part, right = z[rows], g[rows] / size[rows]
        if kind == NARROW:
            apart, _ = narrow.centered(part.to(exact))
            solved = narrow.solve_jacobian(apart, right.to(exact), c[rows, None], sigma)
            found, error[rows], product = (t.to(z.dtype) for t in solved)
        else:
            part = part - origin[rows, None]
            field = _field(part, _middle(part), sigma, kind)
            wanted, rounds = WANTED[z.dtype], ROUNDS[z.dtype]
            found, error[rows] = solve_adjoint(field, right, strength[rows, None], wanted, rounds)
            product = (found * field.bias).sum(1)
        v[rows] = found * size[rows]
        dot[rows] = product * size[rows].squeeze(1)
    if z.dtype != exact:
        again = (~(error <= 5 * WANTED[z.dtype]) & (way != NOT_FINITE)).nonzero().squeeze(1)
        if len(again):
            found = solve_jacobian(z[again].to(exact), g[again].to(exact), c[again], sigma)
            v[again], error[again], dot[again] = (t.to(z.dtype) for t in found)
    return v, error, dot


def pair_sum(z: Tensor, a: Tensor | None, order: int, sigma: str) -> Tensor:
    """(1/D) sum_k a_k s_n(z_k - z_i) for every unit i of every row."""
    result = torch.full_like(z, torch.nan)
    if not z.numel():
        return result
    low, high = z.amin(1), z.amax(1)
    origin = torch.zeros_like(low).clamp(low, high)
    way = _with_bad_rows(_levels(high - low, torch.zeros_like(low), z, sigma), low, high, low)
    for rows, kind in _groups(way, z, sigma, solved=True):
        part, some = z[rows] - origin[rows, None], None if a is None else a[rows]
        if kind == TERM_BY_TERM:
            result[rows] = direct_sum(part, some, order, lookup(sigma))
        elif kind == SORTED:
            result[rows] = sorted_sum(part, some, order)
        elif kind == WINDOW:
            result[rows] = WindowField(part, sigma).pair_sum(some, order)
        else:
            layout = layouts.summing(kind, sigma, z.dtype)
            result[rows] = GridField(part, _middle(part), layout).pair_sum(some, order)
    return result


def _exact(like: Tensor) -> torch.dtype:
    """float64, where the device has it."""
    return like.dtype if like.device.type == "mps" else torch.float64


def _ways_forward(
    y: Tensor, low: Tensor, high: Tensor, c: Tensor, p: Tensor, atol: Tensor, sigma: str
) -> Tensor:
    spread = (high - low) * p
    steepest = (1 - c).clamp(min=1e-12)
    way = _levels(layouts.spans(low * p, high * p, c), c, y, sigma)
    if y.dtype == torch.float32 and _exact(y) != y.dtype:
        # rounding of sums of size 1, and what becomes of it in z
        rounding = 4 * torch.finfo(y.dtype).eps * c.abs() * (spread / steepest).clamp(max=1)
        lost = rounding > atol * steepest.clamp(max=1)
        way = torch.where((c > STEEP) | lost | (way == WINDOW), PRECISE, way)
    way = torch.where(narrow.is_narrow(spread / steepest, c, sigma, y.dtype), NARROW, way)
    way = torch.where((c == 0) | (spread == 0), STILL, way)
    return _with_bad_rows(way, low, high, c * p)


def _ways_backward(z: Tensor, low: Tensor, high: Tensor, c: Tensor, sigma: str) -> Tensor:
    span = high.to(c.dtype) - low.to(c.dtype)
    way = _levels(span, c, z, sigma)
    if z.dtype == torch.float32 and _exact(z) != z.dtype:
        way = torch.where((c > STEEP) | (way == WINDOW), PRECISE, way)
    way = torch.where(narrow.is_narrow(span, c, sigma, z.dtype), NARROW, way)
    return _with_bad_rows(way, low, high, c)


def _with_bad_rows(way: Tensor, *values: Tensor) -> Tensor:
    for value in values:
        way = torch.where(value.isfinite(), way, NOT_FINITE)
    return way


def _levels(span: Tensor, strength: Tensor, rows: Tensor, sigma: str) -> Tensor:
    """The level of each row's grid, given the length that holds it; or the way it goes without."""
    units = rows.shape[1]
    if units <= SHORT:
        return torch.full_like(span, TERM_BY_TERM, dtype=torch.int64)
    if sigma == "hardtanh":
        return torch.full_like(span, SORTED, dtype=torch.int64)
    level = layouts.levels(span, strength)
    longest = layouts.longest_level(units, sigma, rows.dtype)
    beyond = TERM_BY_TERM if units <= KEPT_UNITS else WINDOW
    return torch.where(level <= longest, level, beyond)


def _groups(
    way: Tensor, like: Tensor, sigma: str, solved: bool
) -> Iterator[tuple[Tensor | slice, int]]:
    """Blocks of rows that go the same way; rows that are not finite are left out."""
    total, units = like.shape
    found = way.unique().tolist()
    groups = layouts.together([kind for kind in found if kind >= 0])
    groups |= {kind: [kind] for kind in found if kind < 0 and kind != NOT_FINITE}
    for kind, members in groups.items():
        chosen = (way >= members[-1]) & (way <= members[0]) if kind >= 0 else way == kind
        if len(members) > 1:
            chosen &= way % 3 == kind % 3
        rows = chosen.nonzero().squeeze(1)
        size = {TERM_BY_TERM: rows_per_block(units), WINDOW: 1, STILL: total}.get(
            kind, max(1, BLOCK // units)
        )
        if kind >= 0 and not solved:
            # nodes are fewer than units: more rows at a time
            size = max(size, BLOCK // (2 * layouts.guessing(kind, sigma)[0].nodes))
        if len(rows) == total:
            yield from ((slice(i, i + size), kind) for i in range(0, total, size))
        else:
            yield from ((part, kind) for part in rows.split(size))


def _roots(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str, way: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """On the units alone."""

    def field_at(z: Tensor, rows: Tensor | None) -> Field:
        return _field(z, middle if rows is None else middle[rows], sigma, way, rough=True)

    middle = _middle(y)
    start = y if (strength < 0.98).all() else descend(y, strength, field_at)
    return newton(y, strength, atol, start, field_at)


def _roots_on_grid(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str, level: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """On nodes first, then on the units, most of which are right at once."""
    if (strength >= 0.98).any():
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
    z, residual, _, excess = (
        found[0] if len(found) == 1 else map(torch.cat, zip(*found, strict=True))
    )
    return z, residual, steps, excess


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


def _middle(z: Tensor) -> Tensor:
    low, high = z.amin(1, keepdim=True), z.amax(1, keepdim=True)
    return low + (high - low) / 2
