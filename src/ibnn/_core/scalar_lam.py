"""The common case: lam and slope are scalars, and one call of an engine solves all rows.

Every small op on values of rows takes a microsecond or two, as much as solving a few short rows; so
nothing is made per row here that is the same for all of them. None stands for what is not so
simple, and is left to `ops`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ibnn._core import solution
from ibnn._core.fallback import noise_exceeds_tolerance, tolerances
from ibnn._core.options import SolveOptions
from ibnn._core.solution import LastSolve
from ibnn.engine import AT_SADDLE, Case, Engine
from ibnn.solver.system import GRADIENT_ERROR, RESOLUTION


def applies(*values: Tensor) -> bool:
    """Whether these are scalars on the host."""
    return all(value.numel() == 1 and value.is_cpu for value in values)


def solve(
    engine: Engine,
    case: Case,
    y: Tensor,
    lam: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    options: SolveOptions,
) -> tuple[Tensor, Callable[[], tuple[Tensor, Tensor, Tensor]]] | None:
    """z, and of each row residual, steps and converged, when asked for; y is contiguous. None
    unless all rows are solved."""
    # rows that take more steps are the solver's, and so are those without a threshold
    if options.max_steps is not None or not case.sigma.certified:
        return None
    p = slope.item()
    strength = lam.item() * p
    # (above the threshold there are several solutions, or an engine that knows its weights)
    served = strength <= 0 or (options.is_uniform and (strength < 1 or engine.descends(case)))
    if not served or not math.isfinite(strength) or not 0 < p < math.inf:
        return None
    atol, rtol = tolerances(options, case.dtype)
    exact = case.dtype == torch.float64 and options.is_uniform
    if exact and noise_exceeds_tolerance(*torch.tensor([strength, p * atol], dtype=torch.float64)):
        return None
    resolution = RESOLUTION[case.dtype] if rtol else 0.0
    found = engine.scalar_lam.solve(case, y, strength, p, weight, p * atol, resolution)
    if found is None:
        return None
    z, record, unique = found
    monitor = options.layer_monitor
    if monitor is not None:
        monitor.last_solve = LastSolve(record, 1.0 if strength < 1 else unique(), p)
    return z, record


def adjoint(
    engine: Engine,
    case: Case,
    z: Tensor,
    g: Tensor,
    strength: float,
    weight: Tensor | None,
    options: SolveOptions,
) -> "tuple[Tensor, memoryview[float]] | None":
    """v with J(z) v = g, and v . B(z) of each row, as doubles; z and g are contiguous. None unless
    they are as good as promised; rows at a saddle, where v is right, are reported."""
    if not math.isfinite(strength):
        return None
    if strength >= 1 and options.is_uniform and not engine.descends(case):
        return None
    if not case.sigma.certified:
        return None
    allowed = GRADIENT_ERROR[case.dtype]
    found = engine.scalar_lam.adjoint(case, z, g, strength, weight, allowed)
    if found is None:
        return None
    v, dots, errors = found
    if errors is not None:
        failed, how = errors > allowed, (options.on_failure, options.layer_monitor)
        solution.report("implicit bias, backward", failed, errors, *how, errors == AT_SADDLE)
    # J is the identity where there is no strength, bit by bit
    return (v if strength else g.clone()), dots
