"""The opaque ops: a solve, a linear solve and two sums, as torch sees them.

Rows of units in, rows of units out; real numbers only, no gradients (those are in `adjoint`).
They are opaque ops so that `torch.compile` and `torch.export` keep them whole.
"""

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from ibnn import coupling
from ibnn._core import method, solution
from ibnn._core.method import Method
from ibnn._core.opaque import opaque
from ibnn._core.system import RESOLUTION, System
from ibnn.solver.linear import conjugate_gradients

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


def _empty_solve(y, lam, slope, weight, start, units, how):
    rows = y.shape[0]
    return (
        torch.empty_like(y, memory_format=torch.contiguous_format),
        y.new_empty(rows, dtype=torch.bool),
        y.new_empty(rows),
        y.new_empty(rows, dtype=torch.int32),
    )


@opaque(_empty_solve)
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
    solver, kernel = chosen.solver, coupling.kernel(chosen.kernel)
    reducible = start is None and solver.reduces(chosen.max_steps) and kernel.reduces(chosen.sigma)
    if reducible and y.numel():
        share = RESOLUTION[y.dtype] if chosen.rtol else 0.0
        z, residual, steps, converged = kernel.find_roots(
            y, lam * slope, slope, chosen.atol * slope, share, chosen.sigma
        )
        residual = residual / slope
        left = ~converged & residual.isfinite()
    else:
        z = y.clone(memory_format=torch.contiguous_format)
        steps = torch.zeros_like(lam, dtype=torch.int32)
        converged = z.isfinite().all(-1) & lam.isfinite() & slope.isfinite()
        residual = torch.where(converged, torch.zeros_like(lam), torch.inf)
        z[~converged] = torch.nan
        left = converged & (lam != 0) & (y.shape[-1] > 1)
    if bool(left.any()):
        index = slice(None) if bool(left.all()) else left.nonzero().squeeze(-1)
        p = slope[index, None]
        equation = system(
            y[index] * p, lam[index] * slope[index], slope[index], weight, units, chosen
        )
        begin = z[index] * p if start is None else start[index] * p
        found = solver.find(
            equation, torch.where(begin.isfinite(), begin, equation.y), chosen.max_steps
        )
        z[index] = found.z / p
        converged[index] = found.excess <= 1
        steps[index] += found.steps
        residual[index] = found.residual / slope[index]
    watcher = solution.monitor(chosen.monitor)
    if watcher is not None:
        watcher.last_solve = solution.LastSolve(converged, residual, steps)
    if not solver.approximate:
        solution.report("implicit bias", ~converged, residual, chosen.on_failure, watcher)
    return z, converged, residual, steps


def _empty_solve_adjoint(z, g, strength, weight, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format), z.new_empty(z.shape[0])


@opaque(_empty_solve_adjoint)
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
    kernel = coupling.kernel(chosen.kernel)
    if kernel.reduces(chosen.sigma):
        v, residual, dot = kernel.solve_jacobian(z, g, strength, chosen.sigma)
    else:
        equation = system(z, strength, torch.ones_like(strength), weight, units, chosen)
        jacobian, diagonal = equation.linearised(z)
        rtol = 1e-6 if z.dtype == torch.float32 else 1e-12
        v, residual = conjugate_gradients(jacobian, g, diagonal, rtol, 500)
        v = torch.where(strength.unsqueeze(-1) == 0, g, v)
        dot = (v * equation.bias(z)).sum(-1)
    # a row that is not finite needs no further word: it was told of on the way forward
    failed = (residual > (2e-5 if z.dtype == torch.float32 else 1e-9)) & residual.isfinite()
    watcher = solution.monitor(chosen.monitor)
    solution.report("implicit bias, backward", failed, residual, chosen.on_failure, watcher)
    return v, dot


def _empty_pair_sum(z, a, weight, order, units, how):
    return torch.empty_like(z, memory_format=torch.contiguous_format)


@opaque(_empty_pair_sum)
@_in_full_precision
def pair_sum(
    z: Tensor, a: Tensor | None, weight: Tensor | None, order: int, units: Sequence[int], how: str
) -> Tensor:
    chosen = method.read(how)
    if not z.numel():
        return z.clone()
    return coupling.kernel(chosen.kernel).pair_sum(z, a, weight, order, chosen.sigma, units)


def _empty_pair_outer(z, g, a, weight, order, units, how):
    return torch.empty_like(weight, memory_format=torch.contiguous_format)


@opaque(_empty_pair_outer)
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
