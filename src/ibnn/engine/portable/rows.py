"""The three functions behind `Uniform`, in torch ops that run on any device.

Each row is dispatched by itself. What float32 cannot resolve, or did not, is done again in
float64 where the device has it.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ibnn._tensors import has_doubles
from ibnn.engine.portable import dispatch, narrow
from ibnn.engine.portable import layout as layouts
from ibnn.engine.portable.adjoint import solve_adjoint
from ibnn.engine.portable.device import look, on_host, send
from ibnn.engine.portable.direct import DirectField, direct_sum
from ibnn.engine.portable.dispatch import RowRanges
from ibnn.engine.portable.equation import Field
from ibnn.engine.portable.fine_field import FineField
from ibnn.engine.portable.grid_adjoint import grid_adjoint
from ibnn.engine.portable.grid_field import GridField
from ibnn.engine.portable.grid_newton import Shift, begins_on_nodes, grid_newton, solve_on_nodes
from ibnn.engine.portable.isotonic import isotonic_limit
from ibnn.engine.portable.outliers import OutlierField
from ibnn.engine.portable.sorted_sums import SortedField, sorted_sum
from ibnn.engine.portable.unit_cg import UnitField
from ibnn.engine.portable.unit_newton import descend, newton
from ibnn.sigma import built_in

# the relative error wanted of a gradient, and the rounds of correction it may take
WANTED = {torch.float32: 2e-5, torch.float64: 2e-10}
ROUNDS = {torch.float32: 3, torch.float64: 8}
# below this strength y is farther from z than the limit of steep sigmas, which is within about 1
STRONG = -4
# from here on a start is sought by descent, which knows no threshold
DESCEND = 0.98


def find_roots(
    y: Tensor, slope: Tensor, strength: Tensor, atol: Tensor, sigma: str, resolution: float = 0.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z such that slope * z solves the equation of slope * y, to `atol` of slope * z, or to the
    fraction `resolution` of its row's range, if that is less.

    Of each row also the largest residual of slope * z, the steps, and whether it is solved.
    """
    exact = torch.float64 if has_doubles(y) else y.dtype
    z = torch.full_like(y, torch.nan)
    residual = y.new_full((len(y),), torch.inf)
    steps = torch.zeros(len(y), dtype=torch.int32, device=y.device)
    solved = torch.zeros(len(y), dtype=torch.bool, device=y.device)
    if not y.numel():
        return z, residual, steps, solved
    low, high = y.amin(1), y.amax(1)
    seen = RowRanges(*look(low, high, strength, slope, atol))
    wanted = seen.tolerance(resolution)
    way = dispatch.for_solve(seen, wanted, y, sigma)
    origin = _next_to_zero(low, high)
    p, goal = slope.to(y.dtype)[:, None], send(wanted, y, y.dtype)[:, None]
    again = way == dispatch.FLOAT64

    def scaled(rows: Tensor | slice) -> Tensor:
        return (y[rows] - origin[rows]) * p[rows]

    def started() -> Iterator[tuple[Tensor | slice, int, Shift | None]]:
        """Blocks of rows, their way, and z - y on the nodes where they begin there."""
        for blocks, kind in dispatch.with_room_for_nodes(dispatch.groups(way, y, sigma), y, sigma):
            shifts = [None] * len(blocks)
            if kind >= 0 and y.dtype == torch.float32:
                layout = layouts.starting(kind, sigma)
                if begins_on_nodes(layout, y):
                    c, atol = (torch.cat([t[rows] for rows in blocks]) for t in (strength, goal))
                    c = c[:, None].to(y.dtype)
                    shifts = solve_on_nodes(map(scaled, blocks), c, atol, layout)
            yield from zip(blocks, [kind] * len(blocks), shifts, strict=True)

    for rows, kind, shift in started():
        if kind == dispatch.TRIVIAL:
            z[rows], residual[rows], solved[rows] = y[rows], 0, True
        elif kind == dispatch.NARROW:
            c, scale = strength[rows, None].to(exact), slope[rows, None].to(exact)
            apart, mean = narrow.centered(y[rows].to(exact))
            found, left = narrow.find_roots(apart * scale, c, sigma)
            z[rows], residual[rows] = (mean + found / scale).to(y.dtype), left.to(y.dtype)
            steps[rows], solved[rows] = narrow.STEPS, True
        elif kind != dispatch.FLOAT64:
            x, c = scaled(rows), strength[rows, None].to(y.dtype)
            if kind >= 0 and y.dtype == torch.float32:
                layout = layouts.solving(kind, sigma)
                found, residual[rows], steps[rows], done, all_done = grid_newton(
                    x, c, goal[rows], layout, shift=shift
                )
            else:
                found, residual[rows], steps[rows], excess = _roots(x, c, goal[rows], sigma, kind)
                done, all_done = excess <= 2, y.dtype == exact
            z[rows] = found.div_(p[rows]).add_(origin[rows])
            solved[rows] = done
            del found, x  # as large as a block, which the next one needs
            if not all_done:
                again[_on_host(rows)] = look(done)[0] == 0
    if y.dtype != exact and again.any():
        rows = send(again.nonzero()[0], y)
        part, p, c, goal = (t[rows].to(exact) for t in (y, slope, strength, goal.squeeze(1)))
        better = find_roots(part, p, c, goal, sigma)
        z[rows], residual[rows] = better[0].to(y.dtype), better[1].to(y.dtype)
        steps[rows] += better[2]
        solved[rows] = better[3]
    return z, residual, steps, solved


def solve_jacobian(
    z: Tensor, g: Tensor, strength: Tensor, sigma: str
) -> tuple[Tensor, Tensor, Tensor]:
    """v with J(z) v = g, a bound of its relative error (on the host, where it was looked at), and
    v . P_0(z, 1), of each row."""
    exact = torch.float64 if has_doubles(z) else z.dtype
    v, dot = torch.full_like(g, torch.nan), torch.full_like(strength, torch.nan)
    error = np.full(len(z), np.inf)
    if z.numel():
        low, high = z.amin(1), z.amax(1)
        way = dispatch.for_adjoint(look(low, high, strength), z, sigma)
        origin = _next_to_zero(low, high)
        middle = low[:, None] - origin + (high - low)[:, None] / 2
        # squares of numbers far from 1 would under- or overflow
        size = g.abs().amax(1, keepdim=True)
        size = size.clamp_(torch.finfo(g.dtype).tiny, torch.finfo(g.dtype).max)
        for rows, kind in dispatch.groups(way, z, sigma):
            if kind == dispatch.FLOAT64:
                continue
            right = g[rows] / size[rows]
            if kind == dispatch.NARROW:
                apart, _ = narrow.centered(z[rows].to(exact))
                found, left, product = narrow.solve_jacobian(
                    apart, right.to(exact), strength[rows, None].to(exact), sigma
                )
                (left,) = look(left)
            else:
                x, c = z[rows] - origin[rows], strength[rows, None]
                found, left, product = _solution(x, middle[rows], right, c, sigma, kind)
            error[_on_host(rows)] = left
            v[rows] = found.to(z.dtype) * size[rows]
            dot[rows] = product.to(z.dtype) * size[rows].squeeze(1)
            del found, right  # as large as a block, which the next one needs
        again = ~(error <= 5 * WANTED[z.dtype]) & (way != dispatch.NOT_FINITE)
        if z.dtype != exact and again.any():
            rows = send(again.nonzero()[0], z)
            part, right, c = (t[rows].to(exact) for t in (z, g, strength))
            better = solve_jacobian(part, right, c, sigma)
            v[rows], dot[rows] = better[0].to(z.dtype), better[2].to(z.dtype)
            error[again] = better[1].numpy()
    return v, torch.from_numpy(error), dot


def pair_sum(z: Tensor, a: Tensor | None, order: int, sigma: str) -> Tensor:
    """(1/D) sum_k a_k s_n(z_k - z_i) for every unit i of every row."""
    result = torch.full_like(z, torch.nan)
    if not z.numel():
        return result
    low, high = z.amin(1), z.amax(1)
    origin = _next_to_zero(low, high)
    for rows, kind in dispatch.groups(dispatch.for_sums(look(low, high), z, sigma), z, sigma):
        part, some = z[rows] - origin[rows], None if a is None else a[rows]
        if kind == dispatch.DIRECT:
            result[rows] = direct_sum(part, some, order, built_in(sigma))
        elif kind == dispatch.SORTED:
            result[rows] = sorted_sum(part, some, order)
        elif kind == dispatch.OUTLIERS:
            result[rows] = OutlierField(part, sigma).pair_sum(some, order)
        else:
            layout = layouts.summing(kind, sigma, z.dtype)
            result[rows] = GridField(part, _middle(part), layout).pair_sum(some, order)
    return result


def _roots(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str, way: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """On the units alone, from a quick start where there is one."""

    def field_at(z: Tensor, rows: Tensor) -> Field:
        return _field(z, middle[rows], sigma, way)

    middle = _middle(y)
    if not (strength < DESCEND).all():
        start = descend(y, strength, lambda z: _field(z, middle, sigma, way))
    elif way >= 0:
        layout, atol_of_start = layouts.solving(way, sigma), atol.clamp(min=1e-5)
        shift = None
        if begins_on_nodes(layout, y):
            (shift,) = solve_on_nodes([y], strength, atol_of_start, layout)
        z, _, _, done, _ = grid_newton(y, strength, atol_of_start, layout, shift=shift)
        start = torch.where(done[:, None], z, y)
    elif way == dispatch.OUTLIERS and (strength < STRONG).all():
        start = isotonic_limit(y, strength)
    else:
        start = y
    return newton(y, strength, atol, start, field_at)


def _field(z: Tensor, middle: Tensor, sigma: str, way: int) -> UnitField | GridField | FineField:
    if way == dispatch.DIRECT:
        return DirectField(z, built_in(sigma))
    if way == dispatch.SORTED:
        return SortedField(z)
    if way == dispatch.OUTLIERS:
        return OutlierField(z, sigma)
    if z.dtype == torch.float32:
        return GridField(z, middle, layouts.solving(way, sigma))
    return FineField(z, middle, way, sigma)


def _solution(
    z: Tensor, middle: Tensor, g: Tensor, strength: Tensor, sigma: str, way: int
) -> tuple[Tensor, np.ndarray, Tensor]:
    """v with J v = g, a bound of its relative error (on the host) and v . B(z), of each row."""
    field, wanted, most_rounds = _field(z, middle, sigma, way), WANTED[z.dtype], ROUNDS[z.dtype]
    if not (on_host(z) and isinstance(field, GridField)):
        return solve_adjoint(field, g, strength, wanted, most_rounds)
    v, bound, dot = grid_adjoint(field, g, strength)
    error = bound.double().numpy()
    rest = torch.from_numpy(~(error <= wanted)).nonzero().squeeze(1)
    if len(rest):
        field = _field(z[rest], middle[rest], sigma, way)
        v[rest], error[rest.numpy()], dot[rest] = solve_adjoint(
            field, g[rest], strength[rest], wanted, most_rounds
        )
    return v, error, dot


def _on_host(rows: Tensor | slice) -> np.ndarray | slice:
    return rows if isinstance(rows, slice) else rows.cpu().numpy()


def _next_to_zero(low: Tensor, high: Tensor) -> Tensor:
    """(rows, 1): the place of a row's range next to 0. Subtracting it costs no unit any digits."""
    return torch.zeros_like(low).clamp(low, high)[:, None]


def _middle(z: Tensor) -> Tensor:
    low, high = z.amin(1, keepdim=True), z.amax(1, keepdim=True)
    return low + (high - low) / 2
