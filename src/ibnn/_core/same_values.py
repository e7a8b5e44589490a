"""The common case: an engine solves all rows, and they have one lam and slope.

Every small op on values of rows takes a microsecond or two, as much as solving a few short rows; so
nothing is made per row here that is the same for all of them. None stands for what is not so
simple, and is left to `ops`.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ibnn import engine as engines
from ibnn._core.later import is_asynchronous
from ibnn._core.on_sums import is_drowned, tolerances
from ibnn._core.options import SolveOptions
from ibnn._core.solution import LastSolve
from ibnn.engine import RowSolutions
from ibnn.solver.system import GRADIENT_ERROR, RESOLUTION


def solve(
    y: Tensor,
    lam: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    options: SolveOptions,
) -> RowSolutions | None:
    """What the engine finds; None unless all rows are solved."""
    if lam.numel() != 1 or slope.numel() != 1 or not y.numel() or is_asynchronous(y):
        return None
    if options.max_steps is not None or not options.solver.reduces or not options.sigma.certified:
        return None
    case = engines.case_of("solve", y, options.sums, options.sigma, units)
    engine: Any = engines.choose(case, options.engine)
    if engine is None or not engine.takes_numbers:
        return None
    p = slope.item()
    strength = lam.item() * p
    # (above the threshold there are several solutions, or an engine that knows its weights)
    unique = strength <= 0 or (weight is None and strength < 1)
    if not unique or not math.isfinite(strength) or not 0 < p < math.inf:
        return None
    atol, rtol = tolerances(options, y.dtype)
    exact = y.dtype == torch.float64 and weight is None
    if exact and is_drowned(*torch.tensor([strength, p * atol], dtype=y.dtype)):
        return None
    resolution = RESOLUTION[y.dtype] if rtol else 0.0
    found = engine.solve(case, y, strength, p, weight, p * atol, resolution)
    if not found.solved.all():
        return None
    watcher = options.watcher
    if watcher is not None:
        record = found.solved, found.residual, found.steps
        watcher.last_solve = LastSolve(*record, unique=found.solved, slope=p)
    return found


def adjoint(
    z: Tensor,
    g: Tensor,
    strength: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    options: SolveOptions,
) -> tuple[Tensor, Tensor] | None:
    """v with J(z) v = g, and v . B(z) of each row; None unless they are as good as promised."""
    if strength.numel() != 1 or not z.numel() or is_asynchronous(z):
        return None
    case = engines.case_of("adjoint", z, options.sums, options.sigma, units)
    engine: Any = engines.choose(case, options.engine)
    if engine is None or not engine.takes_numbers:
        return None
    c = strength.item()
    if not math.isfinite(c) or (c >= 1 and weight is None):
        return None
    v, error, dot = engine.adjoint(case, z, g, c, weight)
    if not error.max().item() <= GRADIENT_ERROR[z.dtype]:
        return None
    # J is the identity where there is no strength, bit by bit
    return (v if c else g.clone()), dot
