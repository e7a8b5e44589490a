"""The way forward: rows are solved by an engine, by descent above the threshold where it has no way
of its own, and what is left by the user's solver."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ibnn import engine as engines
from ibnn._core import above_threshold, deferred_failures, scalar_lam, solution
from ibnn._core.fallback import fallback_solve, noise_exceeds_tolerance, tolerances
from ibnn._core.options import SolveOptions
from ibnn._core.rows import check_slope
from ibnn._tensors import has_doubles
from ibnn.solver.system import RESOLUTION


@dataclass
class Progress:
    """How far each row has come; where it is not `done`, it is left to the solver."""

    z: Tensor
    converged: Tensor
    residual: Tensor
    steps: Tensor
    done: Tensor


def solve(
    y: Tensor,
    lam: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    start: Tensor | None,
    units: Sequence[int],
    options: SolveOptions,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z, and per row: converged, residual, steps; lam and slope have a value of each row, or one
    for all."""
    case = engines.case_of("solve", y, options.sums, options.sigma, units)
    engine = None
    if start is None and options.solver.allows_engine and y.numel():
        engine = engines.choose(case, options.engine)
    if engine is not None and engine.scalar_lam is not None and scalar_lam.applies(lam, slope):
        simple = scalar_lam.solve(engine, case, y.contiguous(), lam, slope, weight, options)
        if simple is not None:
            residual, steps, converged = simple[1]()
            return simple[0], converged, (residual / slope).to(y.dtype), steps
    lam, slope = lam.expand(len(y)), slope.expand(len(y))
    if engine is None:
        rows = _begun(y, lam, slope)
    else:
        rows = _by_engine(engine, case, y, lam, slope, weight, units, options)
    if engine is not None and _is_final(engine, case, y, options):
        _report(rows, options)
    elif not bool(rows.done.all()):
        check_slope(slope)
        _by_solver(rows, y, lam, slope, weight, start, units, options)
        if not options.solver.approximate:
            _report(rows, options)
    if options.layer_monitor is not None:
        unique = None
        if not deferred_failures.is_asynchronous(y):
            unique = above_threshold.is_unique(rows.z, lam, slope, weight, units, options)
        record = partial(tuple, (rows.residual, rows.steps, rows.converged))  # can be pickled
        options.layer_monitor.last_solve = solution.LastSolve(record, unique)
    return rows.z, rows.converged, rows.residual, rows.steps


def _begun(y: Tensor, lam: Tensor, slope: Tensor) -> Progress:
    """Every row where it starts, at y; done are those that have nothing to solve."""
    z = y.clone(memory_format=torch.contiguous_format)
    finite = z.isfinite().all(-1) & lam.isfinite() & slope.isfinite()
    z[~finite] = torch.nan
    return Progress(
        z,
        converged=finite,
        residual=torch.where(finite, torch.zeros_like(lam), torch.inf),
        steps=torch.zeros_like(lam, dtype=torch.int32),
        done=finite & (slope > 0) & ((lam == 0) | (y.shape[-1] <= 1)),
    )


def _by_engine(
    engine: engines.Engine,
    case: engines.Case,
    y: Tensor,
    lam: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    options: SolveOptions,
) -> Progress:
    atol, rtol = tolerances(options, y.dtype)
    # near the threshold 1 - lam * slope loses the digits that a float32 product lacks
    strength = lam * (slope.double() if has_doubles(y) else slope)
    above = _left_above(engine, case, y, strength, options)
    if above is not None:
        strength = strength.masked_fill(above, 0)
    resolution = RESOLUTION[y.dtype] if rtol else 0.0
    found = engine.solve(case, y, strength, slope, weight, slope * atol, resolution)
    done = found.solved & (slope > 0)
    if y.dtype == torch.float64 and options.is_uniform:
        done &= ~noise_exceeds_tolerance(strength, slope * atol)
    residual = (found.residual / slope).to(y.dtype)
    rows = Progress(found.z, found.solved, residual, found.steps, done)
    if above is not None:
        finite = rows.converged
        _descend(rows, above & (slope > 0) & finite, y, lam, slope, atol, units, options)
    if options.max_steps is not None:  # rows that take more are the solver's, from y on
        rows.done &= rows.steps <= options.max_steps
        again = ~rows.done & rows.residual.isfinite()
        rows.z[again] = y[again]
        rows.steps = rows.steps * rows.done
    return rows


def _left_above(
    engine: engines.Engine,
    case: engines.Case,
    y: Tensor,
    strength: Tensor,
    options: SolveOptions,
) -> Tensor | None:
    """The rows above the threshold, where the engine has no way of its own; None if there are none.

    An uncertified sigma has no threshold, and its engine no fast sums that would end there; a
    number of steps is counted by the solver; a device is not waited for.
    """
    if not options.is_uniform or not options.sigma.certified or engine.descends(case):
        return None
    if options.max_steps is not None or deferred_failures.is_asynchronous(y):
        return None
    above = (strength >= 1) & strength.isfinite()
    return above if bool(above.any()) else None


def _descend(
    rows: Progress,
    chosen: Tensor,
    y: Tensor,
    lam: Tensor,
    slope: Tensor,
    atol: float,
    units: Sequence[int],
    options: SolveOptions,
) -> None:
    index = chosen.nonzero().squeeze(-1)
    p = slope[index]
    reached = above_threshold.descend(y[index], lam[index] * p, p, p * atol, units, options)
    rows.z[index], rows.steps[index] = reached.z, reached.steps
    rows.converged[index] = rows.done[index] = reached.settled
    rows.residual[index] = reached.residual / p


def _is_final(engine: engines.Engine, case: engines.Case, y: Tensor, options: SolveOptions) -> bool:
    """Whether a device is left alone: nothing is asked of it that its engine has not answered."""
    free = options.on_failure != "raise" and options.max_steps is None
    return free and deferred_failures.is_asynchronous(y) and engine.is_final(case)


def _by_solver(
    rows: Progress,
    y: Tensor,
    lam: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    start: Tensor | None,
    units: Sequence[int],
    options: SolveOptions,
) -> None:
    """Go on with what is not done, from where it stands or from `start`."""
    index = (~rows.done & rows.residual.isfinite()).nonzero().squeeze(-1)
    if not len(index):
        return
    begin = rows.z[index] if start is None else start[index]
    found = fallback_solve(y[index], lam[index], slope[index], begin, weight, units, options)
    rows.z[index] = found.z
    rows.converged[index] = found.excess <= 1
    rows.steps[index] += found.steps
    rows.residual[index] = found.residual


def _report(rows: Progress, options: SolveOptions) -> None:
    told = options.on_failure, options.layer_monitor
    solution.report("implicit bias", rows.converged.logical_not(), rows.residual, *told)
