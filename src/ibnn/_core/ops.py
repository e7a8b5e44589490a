"""The opaque ops: a solve, a linear solve and four sums, as torch sees them.

Rows of units in, rows of units out; real numbers only, no gradients (those are in `adjoint`). They
are opaque ops so that `torch.compile` and `torch.export` keep them whole, and take text only: `how`
is `SolveOptions.text`.
"""

from typing import Any, Sequence  # noqa: UP035 (torch 2.6 reads no other)

import torch
from torch import Tensor

from ibnn._core import backward, forward
from ibnn._core.custom_op import custom_op
from ibnn._core.fallback import bias_change as change_by_engine
from ibnn._core.fallback import pair_sum as sum_by_engine
from ibnn._core.fallback import slope_change as change_by_slope
from ibnn._core.options import read


def _alike(x: Any, z: Tensor) -> Any:
    """x in the dtype of z, as memory is read: torch.func.jvp gives numbers in float32, such as a
    threshold 1 / slope, tangents in float64."""
    return x if x is None or x.dtype is z.dtype else x.to(z.dtype)


def _empty_solve(y, lam, slope, weight, start, units, how):
    rows = y.shape[0]
    return (
        torch.empty_like(y, memory_format=torch.contiguous_format),
        y.new_empty(rows, dtype=torch.bool),
        y.new_empty(rows),
        y.new_empty(rows, dtype=torch.int32),
    )


@custom_op(_empty_solve)
def solve(
    y: Tensor,
    lam: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    start: Tensor | None,
    units: Sequence[int],
    how: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z, and per row: converged, residual, steps; lam and slope have a value of each row, or one
    for all."""
    return forward.solve(y, lam, slope, weight, start, units, read(how))


def _empty_solve_adjoint(z, g, strength, weight, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format), z.new_empty(z.shape[0])


@custom_op(_empty_solve_adjoint)
def solve_adjoint(
    z: Tensor,
    g: Tensor,
    strength: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    how: str,
) -> tuple[Tensor, Tensor]:
    """v with J(z) v = g, and v . B(z) of each row; z in units of slope 1; strength has a value of
    each row, or one for all."""
    if not z.numel():
        return g.clone(), strength.new_zeros(len(z))
    return backward.solve_adjoint(z, _alike(g, z), strength, weight, units, read(how))


def _empty_pair_sum(z, a, weight, order, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format)


@custom_op(_empty_pair_sum)
def pair_sum(
    z: Tensor, a: Tensor | None, weight: Tensor | None, order: int, units: Sequence[int], how: str
) -> Tensor:
    """P_n(z, a) = sum_k w_ik a_k s_n(z_k - z_i)."""
    if not z.numel():
        return z.clone()
    return sum_by_engine(z, _alike(a, z), weight, order, units, read(how))


def _empty_bias_change(z, v, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format)


@custom_op(_empty_bias_change)
def bias_change(z: Tensor, v: Tensor, units: Sequence[int], how: str) -> Tensor:
    """DB(z) v = P_1(z, v) - v P_1(z, 1), uniform weights."""
    return change_by_engine(z, _alike(v, z), units, read(how)) if z.numel() else z.clone()


def _empty_slope_change(z, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format)


@custom_op(_empty_slope_change)
def slope_change(z: Tensor, units: Sequence[int], how: str) -> Tensor:
    """How B(z) changes as the slope grows, times the slope, uniform weights."""
    return change_by_slope(z, units, read(how)) if z.numel() else z.clone()


def _empty_pair_outer(z, g, a, weight, order, units, how):
    return torch.empty_like(weight, memory_format=torch.contiguous_format)


@custom_op(_empty_pair_outer)
def pair_outer(
    z: Tensor,
    g: Tensor,
    a: Tensor | None,
    weight: Tensor,
    order: int,
    units: Sequence[int],
    how: str,
) -> Tensor:
    """The derivative of sum(g * P_n(z, a)) by the weights."""
    if not z.numel():
        return torch.zeros_like(weight)
    options = read(how)
    g, a = _alike(g, z), _alike(a, z)
    return options.sums.pair_outer(z, g, a, weight, order, options.sigma, units)
