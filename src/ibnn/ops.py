"""The opaque ops: a solve, a linear solve and two sums, as torch sees them.

Rows of units in, rows of units out; real numbers only, no gradients (those are in `ibnn.adjoint`).
They are custom ops so that `torch.compile` and `torch.export` keep them whole.
"""

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from ibnn import coupling, method, solution
from ibnn.method import Method
from ibnn.solver.linear import conjugate_gradients
from ibnn.system import System

P = ParamSpec("P")
T = TypeVar("T")


def system(
    y: Tensor,
    strength: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    how: Method,
    differentiable_sum: Callable[[Tensor, Tensor | None, int], Tensor] | None = None,
) -> System:
    """The equation of these rows; y and strength already carry the slope."""
    kernel = coupling.kernel(how.kernel)
    return System(
        y=y,
        strength=strength.unsqueeze(-1),
        weight=weight,
        kernel=kernel,
        sigma=how.sigma,
        units=tuple(units),
        atol=(how.atol * slope.detach()).unsqueeze(-1),
        rtol=how.rtol,
        eigenvalue=kernel.eigenvalue_bound(None if weight is None else weight.detach()),
        differentiable_sum=differentiable_sum,
    )


def _in_full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Keeps autocast out: its half precision would undo the solve from inside."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        device = next(a.device.type for a in args if isinstance(a, Tensor))
        with torch.autocast(device, enabled=False):
            return function(*args, **kwargs)

    return wrapped


@torch.library.custom_op("ibnn::solve", mutates_args=())
@_in_full_precision
def solve(
    y: Tensor,
    lam: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    start: Tensor | None,
    units: Sequence[int],
    how: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z, and per row: converged, residual, steps."""
    chosen = method.read(how)
    if bool((slope <= 0).any()):
        raise ValueError(f"slope must be positive, got {float(slope.min())}")
    z = y.clone()
    rows = len(y)
    residual = torch.zeros(rows, dtype=y.dtype, device=y.device)
    converged = torch.ones(rows, dtype=torch.bool, device=y.device)
    steps = torch.zeros(rows, dtype=torch.int32, device=y.device)
    finite = y.sum(-1).isfinite() & lam.isfinite() & slope.isfinite()
    if not bool(finite.all()):
        # a sum can overflow where no unit is infinite: look again, unit by unit
        finite = y.isfinite().all(-1) & lam.isfinite() & slope.isfinite()
        bad = ~finite
        z[bad], residual[bad], converged[bad] = torch.nan, torch.inf, False
    work = finite & (lam != 0)
    if bool(work.any()) and y.shape[-1] > 1:
        every = bool(work.all())
        index = slice(None) if every else work.nonzero().squeeze(-1)
        p = slope[index, None]
        scaled = y[index] * p
        equation = system(scaled, lam[index] * slope[index], slope[index], weight, units, chosen)
        begin = equation.y if start is None else start[index] * p
        found = chosen.solver.find(equation, begin, chosen.max_steps)
        z[index] = found.z / p
        converged[index] = found.excess <= 1
        steps[index] = found.steps
        residual[index] = found.residual / slope[index]
    watcher = solution.monitor(chosen.monitor)
    if watcher is not None:
        watcher.last_solve = solution.LastSolve(converged, residual, steps)
    if not chosen.solver.approximate:
        solution.report("implicit bias", ~converged, residual, chosen.on_failure, watcher)
    return z, converged, residual, steps


@solve.register_fake
def _(y, lam, slope, weight, start, units, how):
    rows = y.shape[0]
    return (
        torch.empty_like(y, memory_format=torch.contiguous_format),
        y.new_empty(rows, dtype=torch.bool),
        y.new_empty(rows),
        y.new_empty(rows, dtype=torch.int32),
    )


@torch.library.custom_op("ibnn::solve_adjoint", mutates_args=())
@_in_full_precision
def solve_adjoint(
    z: Tensor,
    g: Tensor,
    strength: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    how: str,
) -> tuple[Tensor, Tensor]:
    """v with J(z) v = g, and v . B(z) of each row; z in units of slope 1."""
    if not z.numel():
        return g.clone(), strength.new_zeros(len(z))
    chosen = method.read(how)
    equation = system(z, strength, torch.ones_like(strength), weight, units, chosen)
    finite = z.isfinite().all(-1) & g.isfinite().all(-1) & strength.isfinite()
    work = finite & (strength != 0)
    if not bool(work.any()) or z.shape[-1] <= 1:
        v = g.clone()
        v[~finite] = torch.nan
        return v, (v * equation.bias(z)).sum(-1)
    if equation.reducible:
        v, residual, dot = equation.kernel.solve_jacobian(z, g, strength, equation.sigma)
    else:
        jacobian, diagonal = equation.linearised(z)
        rtol = 1e-6 if z.dtype == torch.float32 else 1e-12
        v, residual = conjugate_gradients(jacobian, g, diagonal, rtol, 500)
        dot = (v * equation.bias(z)).sum(-1)
    allowed = 2e-5 if z.dtype == torch.float32 else 1e-9
    failed = ~(residual <= allowed) & finite
    watcher = solution.monitor(chosen.monitor)
    solution.report("implicit bias, backward", failed, residual, chosen.on_failure, watcher)
    return v, dot


@solve_adjoint.register_fake
def _(z, g, strength, weight, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format), z.new_empty(z.shape[0])


@torch.library.custom_op("ibnn::pair_sum", mutates_args=())
@_in_full_precision
def pair_sum(
    z: Tensor, a: Tensor | None, weight: Tensor | None, order: int, units: Sequence[int], how: str
) -> Tensor:
    chosen = method.read(how)
    if not z.numel():
        return z.clone()
    return coupling.kernel(chosen.kernel).pair_sum(z, a, weight, order, chosen.sigma, units)


@pair_sum.register_fake
def _(z, a, weight, order, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format)


@torch.library.custom_op("ibnn::pair_outer", mutates_args=())
@_in_full_precision
def pair_outer(
    z: Tensor,
    g: Tensor,
    a: Tensor | None,
    weight: Tensor,
    order: int,
    units: Sequence[int],
    how: str,
) -> Tensor:
    chosen = method.read(how)
    return coupling.kernel(chosen.kernel).pair_outer(z, g, a, weight, order, chosen.sigma, units)


@pair_outer.register_fake
def _(z, g, a, weight, order, units, how):
    return torch.empty_like(weight, memory_format=torch.contiguous_format)
