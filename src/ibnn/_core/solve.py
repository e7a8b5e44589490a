"""One solve from tensors of any shape: into rows, through the solver or an engine, and back."""

from functools import partial

import torch
from torch import Tensor

from ibnn._core import adjoint, fallback, pair_sums
from ibnn._core.above_threshold import is_unique
from ibnn._core.deferred_failures import is_asynchronous
from ibnn._core.explicit import explicit_step
from ibnn._core.fast_path import fast_path
from ibnn._core.options import SolveOptions
from ibnn._core.rows import Rows, check_like, check_slope, rows_of
from ibnn._core.solution import LastSolve, report
from ibnn._tensors import is_plain
from ibnn.coupling import Coupling
from ibnn.solver import Lite


def solve_rows(
    y: Tensor,
    lam: float | Tensor,
    slope: float | Tensor,
    coupling: Coupling,
    start: Tensor | None,
    options: SolveOptions,
    asked: bool = True,
) -> tuple[Tensor, ...]:
    """z, and where they are asked for, per row (flat): converged, residual, steps."""
    rows = rows_of(y, coupling)
    weight = weight_for(rows, coupling, y)
    begin = None
    if start is not None:
        check_like("start", start, y)
        begin = rows.flatten(start.detach())
    lam, slope = rows.checked("lam", lam), rows.checked("slope", slope)
    directly = y.numel() and (options.adjoint == "unrolled" or isinstance(options.solver, Lite))
    rest = rows.units, options
    if is_plain() and not directly:
        kept = torch.is_grad_enabled()
        z, _, *record = adjoint.implicit_solve(
            y, lam, slope, weight, begin, *rest, kept, rows, asked
        )
        return z, *record
    terms = rows.flatten(y), rows.spread(lam), rows.spread(slope), weight, begin
    if directly:
        check_readable_slope(slope)
        z, *record = _solve_directly(*terms, *rest)
    else:
        z, _, *record = adjoint.implicit_solve(*terms, *rest, torch.is_grad_enabled(), None, asked)
    return rows.restore(z), *record


def value_of_rows(
    y: Tensor,
    lam: float | Tensor,
    slope: float | Tensor,
    coupling: Coupling,
    start: Tensor | None,
    options: SolveOptions,
    owned: bool = False,
) -> Tensor:
    """z alone, without judging one explicit step, which would take as long as the step.

    `owned` says that nobody reads y again, so that its memory may be used.
    """
    z = fast_path(y, lam, slope, coupling, options, owned) if start is None else None
    if z is not None:
        return z
    if not isinstance(options.solver, Lite) or start is not None:
        return solve_rows(y, lam, slope, coupling, start, options, asked=False)[0]
    rows = rows_of(y, coupling)
    weight = weight_for(rows, coupling, y)
    lam, slope = rows.checked("lam", lam), rows.checked("slope", slope)
    check_readable_slope(slope)
    return explicit_step(y, lam, slope, weight, rows, options)


def weight_for(rows: Rows, coupling: Coupling, y: Tensor) -> Tensor | None:
    """The weights of the coupling for these rows, where y is."""
    weight = coupling.checked_weight(rows.dtype, rows.units)
    return None if weight is None else weight.to(y.device)


def _solve_directly(y, lam, slope, weight, start, units, options):
    """The solver's own steps, recorded by autograd."""
    p = slope.unsqueeze(-1)

    def pair_sum(z: Tensor, a: Tensor | None, order: int) -> Tensor:
        return pair_sums.pair_sum(z, a, weight, order, units, options)

    def linear_solve(z: Tensor, g: Tensor, strength: Tensor) -> Tensor:
        return adjoint.linear_solve(z, g, strength, weight, units, options)[0]

    system = fallback.system(
        y * p, lam * slope, slope, weight, units, options, pair_sum, linear_solve
    )
    begin = system.y if start is None else start * p
    found = options.solver.find(system, begin, options.steps_allowed)
    # as everywhere, a row that is not finite becomes NaN as a whole
    finite = y.isfinite().all(-1) & lam.isfinite() & slope.isfinite()
    z = torch.where(finite.unsqueeze(-1), found.z / p, torch.nan)
    converged, worst = found.excess <= 1, found.residual / slope.detach()
    monitor = options.layer_monitor
    if monitor is not None:
        unique = None
        if not is_asynchronous(y):
            with torch.no_grad():
                unique = is_unique(z, lam, slope, weight, units, options)
        rows = partial(tuple, (worst, found.steps, converged))  # (which can be pickled)
        monitor.last_solve = LastSolve(rows, unique)
    if not options.solver.approximate:
        report("implicit bias", ~converged, worst, options.on_failure, monitor)
    return z, converged, worst, found.steps


def check_readable_slope(slope: Tensor) -> None:
    """As the implicit solve does inside its op. A device is not waited for, and a transform has no
    numbers to show."""
    if slope.is_cpu and is_plain():
        check_slope(slope)
