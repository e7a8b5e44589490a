"""The opaque ops: a solve, a linear solve and four sums, as torch sees them.

Rows of units in, rows of units out; real numbers only, no gradients (those are in `adjoint`). They
are opaque ops so that `torch.compile` and `torch.export` keep them whole, and take text only: `how`
is `SolveOptions.text`.
"""

from functools import partial
from typing import Sequence  # noqa: UP035 (torch 2.6 reads no other)

import torch
from torch import Tensor

from ibnn import engine as engines
from ibnn._core import above_threshold, deferred_failures, scalar_lam, solution
from ibnn._core.custom_op import custom_op
from ibnn._core.fallback import bias_change as change_by_engine
from ibnn._core.fallback import (
    fallback_adjoint,
    fallback_solve,
    noise_exceeds_tolerance,
    tolerances,
)
from ibnn._core.fallback import pair_sum as sum_by_engine
from ibnn._core.fallback import slope_change as change_by_slope
from ibnn._core.options import read
from ibnn._core.rows import check_slope
from ibnn._tensors import has_doubles
from ibnn.solver.system import GRADIENT_ERROR, RESOLUTION


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
    options = read(how)
    solver, monitor = options.solver, options.layer_monitor
    case = engines.case_of("solve", y, options.sums, options.sigma, units)
    engine = None
    if start is None and solver.allows_engine and y.numel():
        engine = engines.choose(case, options.engine)
    if engine is not None and engine.scalar_lam is not None and scalar_lam.applies(lam, slope):
        values = lam, slope, weight
        simple = scalar_lam.solve(engine, case, y.contiguous(), *values, options)
        if simple is not None:
            residual, steps, converged = simple[1]()
            return simple[0], converged, (residual / slope).to(y.dtype), steps
    lam, slope = lam.expand(len(y)), slope.expand(len(y))
    if engine is not None:
        atol, rtol = tolerances(options, y.dtype)
        # near the threshold 1 - lam * slope loses the digits that a float32 product lacks
        strength = lam * (slope.double() if has_doubles(y) else slope)
        resolution = RESOLUTION[y.dtype] if rtol else 0.0
        # above the threshold, where the engine has no way of its own (an uncertified sigma has no
        # threshold, and its engine no fast sums that would end there)
        steep, descends = None, options.is_uniform and options.sigma.certified
        descends = descends and not engine.descends(case)
        if descends and options.max_steps is None and not deferred_failures.is_asynchronous(y):
            is_above = (strength >= 1) & strength.isfinite()
            if bool(is_above.any()):
                steep = (is_above & (slope > 0)).nonzero().squeeze(-1)
                strength = strength.masked_fill(is_above, 0)
        found = engine.solve(case, y, strength, slope, weight, slope * atol, resolution)
        z, steps, converged = found.z, found.steps, found.solved
        residual = (found.residual / slope).to(y.dtype)
        done = converged & (slope > 0)
        if y.dtype == torch.float64 and options.is_uniform:
            done &= ~noise_exceeds_tolerance(strength, slope * atol)
        if steep is not None:
            steep = steep[converged[steep]]  # the others are not finite
            p = slope[steep]
            reached = above_threshold.descend(y[steep], lam[steep] * p, p, p * atol, units, options)
            z[steep], steps[steep] = reached.z, reached.steps
            converged[steep] = done[steep] = reached.settled
            residual[steep] = reached.residual / p
        if options.max_steps is not None:  # rows that take more are the solver's, from y on
            done &= steps <= options.max_steps
            again = ~done & residual.isfinite()
            z[again], steps = y[again], steps * done
    else:
        z = y.clone(memory_format=torch.contiguous_format)
        steps = torch.zeros_like(lam, dtype=torch.int32)
        converged = z.isfinite().all(-1) & lam.isfinite() & slope.isfinite()
        residual = torch.where(converged, torch.zeros_like(lam), torch.inf)
        z[~converged] = torch.nan
        done = converged & (slope > 0) & ((lam == 0) | (y.shape[-1] <= 1))
    # nothing is asked of a device that can be left alone
    final = (
        engine is not None
        and options.on_failure != "raise"
        and options.max_steps is None
        and deferred_failures.is_asynchronous(y)
        and engine.is_final(case)
    )
    if final:
        failed = converged.logical_not()
        solution.report("implicit bias", failed, residual, options.on_failure, monitor)
    elif not bool(done.all()):
        check_slope(slope)
        index = (~done & residual.isfinite()).nonzero().squeeze(-1)
        if len(index):
            begin = z[index] if start is None else start[index]
            row = y[index], lam[index], slope[index], begin
            better = fallback_solve(*row, weight, units, options)
            z[index] = better.z
            converged[index] = better.excess <= 1
            steps[index] += better.steps
            residual[index] = better.residual
        if not solver.approximate:
            solution.report("implicit bias", ~converged, residual, options.on_failure, monitor)
    if monitor is not None:
        unique = None
        if not deferred_failures.is_asynchronous(y):
            unique = above_threshold.is_unique(z, lam, slope, weight, units, options)
        rows = partial(tuple, (residual, steps, converged))  # (which can be pickled)
        monitor.last_solve = solution.LastSolve(rows, unique)
    return z, converged, residual, steps


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
    options = read(how)
    case = engines.case_of("adjoint", z, options.sums, options.sigma, units)
    engine = engines.choose(case, options.engine)
    strength = strength.expand(len(z))
    allowed = GRADIENT_ERROR[z.dtype]
    descends = options.is_uniform and options.sigma.certified
    steep = strength >= 1 if descends and not deferred_failures.is_asynchronous(z) else None
    if steep is not None and not bool(steep.any()):
        steep = None
    if steep is not None and (engine is None or not engine.descends(case)):
        if not bool(steep.all()):  # each row as it would be alone
            return _adjoint_in_parts(steep, z, g, strength, units, how)
        engine = None  # it would have no way of its own
    if engine is not None:
        v, error, dot = engine.adjoint(case, z, g, strength, weight)
        if deferred_failures.is_asynchronous(z) or not bool(strength.all()):
            # J is the identity where there is no strength, bit by bit
            v = torch.where((strength == 0).unsqueeze(-1), g, v)
        if steep is not None:
            left = (steep & (error > allowed) & (error < 1)).nonzero().squeeze(-1)
            if len(left):
                part = z[left], g[left], strength[left]
                exact = fallback_adjoint(*part, weight, units, options)
                for whole, some in zip((v, error, dot), exact, strict=True):
                    whole[left] = some.to(whole.dtype)
    else:
        v, error, dot = fallback_adjoint(z, g, strength, weight, units, options)
    if deferred_failures.is_asynchronous(z) or not bool((error <= allowed).all()):
        failed = error > allowed
        # a row that is not finite needs no further word: it was reported on the way forward
        failed &= error.isfinite()
        at_saddle = error == engines.AT_SADDLE if engine is not None else None
        how_told = options.on_failure, options.layer_monitor
        solution.report("implicit bias, backward", failed, error, *how_told, at_saddle)
    return v, dot


def _adjoint_in_parts(part, z, g, strength, units, how):
    v, dot = torch.empty_like(g), torch.empty_like(strength)
    for index in (part.nonzero().squeeze(-1), (~part).nonzero().squeeze(-1)):
        v[index], dot[index] = solve_adjoint(z[index], g[index], strength[index], None, units, how)
    return v, dot


def _empty_pair_sum(z, a, weight, order, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format)


@custom_op(_empty_pair_sum)
def pair_sum(
    z: Tensor, a: Tensor | None, weight: Tensor | None, order: int, units: Sequence[int], how: str
) -> Tensor:
    """P_n(z, a) = sum_k w_ik a_k s_n(z_k - z_i)."""
    return sum_by_engine(z, a, weight, order, units, read(how)) if z.numel() else z.clone()


def _empty_bias_change(z, v, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format)


@custom_op(_empty_bias_change)
def bias_change(z: Tensor, v: Tensor, units: Sequence[int], how: str) -> Tensor:
    """DB(z) v = P_1(z, v) - v P_1(z, 1), uniform weights."""
    return change_by_engine(z, v, units, read(how)) if z.numel() else z.clone()


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
    return options.sums.pair_outer(z, g, a, weight, order, options.sigma, units)
