"""The three functions behind `Uniform`, in torch ops that run on any device."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ibnn.kernelsum import layout as layouts
from ibnn.kernelsum.direct import DirectField, direct_sum, rows_per_block
from ibnn.kernelsum.grid_field import GridField
from ibnn.kernelsum.node_guess import NodeGuess
from ibnn.kernelsum.unit_newton import newton
from ibnn.sigma import lookup

# rows this short are summed term by term
SHORT = 48
# elements of one temporary
BLOCK = 1 << 18


def pair_sum(z: Tensor, a: Tensor | None, order: int, sigma: str) -> Tensor:
    """(1/D) sum_k a_k s_n(z_k - z_i) for every unit i of every row."""
    result = torch.full_like(z, torch.nan)
    if not z.shape[1]:
        return result
    for rows, level in _groups(z, z.new_zeros(len(z)), sigma, BLOCK // z.shape[1]):
        part, some = z[rows], None if a is None else a[rows]
        if level is None:
            result[rows] = direct_sum(part, some, order, lookup(sigma))
        else:
            layout = layouts.summing(level, sigma, z.dtype)
            result[rows] = GridField(part, _middle(part), layout).pair_sum(some, order)
    return result


def find_roots(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str
) -> tuple[Tensor, Tensor, Tensor]:
    """z with z + strength * P_0(z, 1) = y, the largest residual and the steps of each row."""
    z = torch.full_like(y, torch.nan)
    residual = torch.full_like(strength, torch.inf)
    steps = torch.zeros(len(y), dtype=torch.int32, device=y.device)
    if not y.shape[1]:
        return z, torch.zeros_like(strength), steps
    for rows, level in _groups(y, strength, sigma, len(y)):
        find = _roots_directly if level is None else _roots_on_grid
        _put((z, residual, steps), rows, find(y[rows], strength[rows, None], atol[rows, None], sigma, level))
    still = (strength == 0) & residual.isfinite()
    if still.any():
        z[still], residual[still], steps[still] = y[still], 0, 0
    return z, residual, steps


def solve_jacobian(
    z: Tensor, g: Tensor, strength: Tensor, sigma: str, with_strength_grad: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """v with J(z) v = g, the relative residual of each row, and v . P_0(z, 1) of each row."""
    v = torch.full_like(g, torch.nan)
    residual, dot = torch.full_like(strength, torch.inf), torch.full_like(strength, torch.nan)
    if not z.shape[1]:
        return v, torch.zeros_like(strength), torch.zeros_like(strength)
    for rows, level in _groups(z, torch.zeros_like(strength), sigma, BLOCK // z.shape[1]):
        found = _solve(z[rows], g[rows], strength[rows, None], sigma, level, with_strength_grad)
        _put((v, residual, dot), rows, found)
    return v, residual, dot


def _roots_directly(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str, level: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    return newton(y, strength, atol, y, lambda z, _: DirectField(z, lookup(sigma)))


def _roots_on_grid(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str, level: int
) -> tuple[Tensor, Tensor, Tensor]:
    layout = layouts.solving(level, sigma)
    low, high = y.amin(1, keepdim=True), y.amax(1, keepdim=True)
    middle = low + (high - low) / 2
    guess = NodeGuess(low, high, strength, atol / 4, layout, layout.cells)
    step = max(1, BLOCK // y.shape[1])
    blocks = [slice(i, i + step) for i in range(0, len(y), step)]
    for rows in blocks:
        guess.count(y[rows], rows)
    steps = guess.solve()
    z = torch.empty_like(y)
    residual = torch.empty_like(strength.squeeze(1))
    for rows in blocks:
        near = middle[rows]

        def field_at(z: Tensor, some: Tensor | None, near: Tensor = near) -> GridField:
            return GridField(z, near if some is None else near[some], layout)

        z[rows], residual[rows], more = newton(
            y[rows], strength[rows], atol[rows], guess.at(y[rows], rows), field_at
        )
        steps[rows] += more
    return z, residual, steps


def _solve(
    z: Tensor, g: Tensor, strength: Tensor, sigma: str, level: int | None, with_dot: bool
) -> tuple[Tensor, Tensor, Tensor]:
    tolerance = 1e-6 if z.dtype == torch.float32 else 1e-12
    if level is None:
        field = DirectField(z, lookup(sigma))
        v, residual = field.solve(g, strength, tolerance)
        return v, residual, (v * field.bias).sum(1)
    field = GridField(z, _middle(z), layouts.solving(level, sigma))
    v, residual, dot = field.solve_and_dot(g, strength, tolerance, with_dot)
    return v, residual, torch.zeros_like(residual) if dot is None else dot


def _groups(
    y: Tensor, strength: Tensor, sigma: str, rows_on_grid: int
) -> Iterator[tuple[Tensor | slice, int | None]]:
    """Blocks of rows that share a grid (its level), or are summed term by term (None)."""
    units = y.shape[1]
    span = layouts.spans(y, strength)
    level = layouts.levels(span)
    if units <= SHORT or sigma == "hardtanh":
        level = torch.zeros_like(level) - 1
    level = torch.where(span.isfinite(), level, -2)
    kinds = level.unique().tolist()
    for kind in kinds:
        if kind == -2:
            continue
        gridded = kind >= 0 and layouts.solving(kind, sigma).nodes <= max(2048, 4 * units)
        size = max(1, rows_on_grid if gridded else rows_per_block(units))
        if len(kinds) == 1:
            parts = [slice(i, i + size) for i in range(0, len(y), size)]
        else:
            parts = (level == kind).nonzero().squeeze(1).split(size)
        for part in parts:
            yield part, kind if gridded else None


def _put(whole: tuple[Tensor, ...], rows: Tensor | slice, parts: tuple[Tensor, ...]) -> None:
    for tensor, part in zip(whole, parts, strict=True):
        tensor[rows] = part


def _middle(z: Tensor) -> Tensor:
    low, high = z.amin(1, keepdim=True), z.amax(1, keepdim=True)
    return low + (high - low) / 2
