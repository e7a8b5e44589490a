"""The neuron as functions: implicit_bias, solve, energy, residual."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from ibnn import sigma as sigmas
from ibnn import solver as solvers
from ibnn._core import method, ops
from ibnn._core.adjoint import ImplicitSolve, LinearSolve, PairSum
from ibnn._core.rows import Rows
from ibnn._core.solution import Solution, report
from ibnn.coupling import Coupling, Uniform
from ibnn.sigma import Sigma
from ibnn.solver import Solver

# accuracy of z where none is asked for: a few roundings above the best the dtype can do
# (as text, like the method it becomes a part of: see `method.write`)
_ACCURACY = {torch.float32: "2e-06", torch.float64: "1e-12"}


def implicit_bias(
    y: Tensor,
    lam: float | Tensor,
    slope: float | Tensor = 10.0,
    *,
    coupling: Coupling | None = None,
    sigma: str | Sigma = "tanh",
    solver: str | Solver = "newton",
    adjoint: str = "implicit",
    start: Tensor | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_steps: int | None = None,
    on_failure: str = "warn",
) -> Tensor:
    """The z that solves `z_i = y_i - lam * sum_k w_ik sigma(slope * (z_k - z_i))`.

    `coupling` (default `Uniform(dims=-1)`) says which dims of `y` are units; the other dims are
    independent rows. `lam` and `slope` are scalars, or hold one value per channel: the dim right
    before the units. `atol` and `rtol` bound the error of z. `adjoint` is how gradients come back:
    "implicit" (exact), "unrolled" (through the solver's steps) or "jfb" (Jacobian-free).

    >>> y = torch.tensor([[-0.1, 0.05, 0.1]])
    >>> implicit_bias(y, -0.2)  # lam < 0 pulls units together
    tensor([[-0.0256,  0.0288,  0.0468]])
    """
    coupling = Uniform(-1) if coupling is None else coupling
    how = describe(coupling, sigma, solver, adjoint, atol, rtol, max_steps, on_failure, y)
    return solve_described(y, lam, slope, coupling, start, how)[0]


def solve(
    y: Tensor,
    lam: float | Tensor,
    slope: float | Tensor = 10.0,
    *,
    coupling: Coupling | None = None,
    sigma: str | Sigma = "tanh",
    solver: str | Solver = "newton",
    adjoint: str = "implicit",
    start: Tensor | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_steps: int | None = None,
    on_failure: str = "warn",
) -> Solution:
    """`implicit_bias` with its record: the value, and per row converged, residual and steps.

    >>> solve(torch.linspace(-1, 1, 6).reshape(2, 3), -0.1).converged
    tensor([True, True])
    """
    coupling = Uniform(-1) if coupling is None else coupling
    how = describe(coupling, sigma, solver, adjoint, atol, rtol, max_steps, on_failure, y)
    z, *record = solve_described(y, lam, slope, coupling, start, how)
    return Solution(z, *(r.reshape(Rows(y, coupling).shape) for r in record))


def energy(
    z: Tensor,
    y: Tensor,
    lam: float | Tensor,
    slope: float | Tensor = 10.0,
    *,
    coupling: Coupling | None = None,
    sigma: str | Sigma = "tanh",
) -> Tensor:
    """The paper's E_lambda of each row: |z - y|^2 / 2 - lam/2 sum_ik w_ik S(z_k - z_i), with S the
    primitive of sigma(slope * x). The solution is its minimum.

    >>> energy(torch.zeros(2), torch.ones(2), lam=-0.1)
    tensor(1.)
    """
    coupling = Uniform(-1) if coupling is None else coupling
    rows, flat, target, lam_rows, p, pair_sum = _terms(z, y, lam, slope, coupling, sigma)
    pairs = lam_rows / p * pair_sum(flat * p.unsqueeze(-1), -1).sum(-1)
    return (((flat - target).square().sum(-1) - pairs) / 2).reshape(rows.shape)


def residual(
    z: Tensor,
    y: Tensor,
    lam: float | Tensor,
    slope: float | Tensor = 10.0,
    *,
    coupling: Coupling | None = None,
    sigma: str | Sigma = "tanh",
) -> Tensor:
    """z - y + lam B(z), unit by unit: the gradient of the energy, zero at the solution.

    >>> residual(torch.zeros(3), torch.tensor([0.0, 1.0, 2.0]), lam=0.05)
    tensor([ 0., -1., -2.])
    """
    coupling = Uniform(-1) if coupling is None else coupling
    rows, flat, target, lam_rows, p, pair_sum = _terms(z, y, lam, slope, coupling, sigma)
    bias = pair_sum(flat * p.unsqueeze(-1), 0)
    return rows.restore(flat - target + lam_rows.unsqueeze(-1) * bias)


def _terms(z, y, lam, slope, coupling, sigma):
    """What energy and residual are made of, gradients included."""
    if z.shape != y.shape:
        raise ValueError(f"z must have y's shape {tuple(y.shape)}, got {tuple(z.shape)}")
    rows = Rows(y, coupling)
    how = describe(coupling, sigma, "newton", "implicit", None, None, None, "ignore", y)
    weight = coupling.weight(rows.dtype)
    weight = None if weight is None else weight.to(y.device)

    def pair_sum(scaled: Tensor, order: int) -> Tensor:
        return PairSum.apply(scaled, None, weight, order, rows.units, how)

    lam_rows, slope_rows = rows.per_row("lam", lam), rows.per_row("slope", slope)
    return rows, rows.flatten(z), rows.flatten(y), lam_rows, slope_rows, pair_sum


def describe(
    coupling: Coupling,
    sigma: str | Sigma,
    solver: str | Solver,
    adjoint: str,
    atol: float | None,
    rtol: float | None,
    max_steps: int | None,
    on_failure: str,
    y: Tensor,
    monitor: int = 0,
) -> str:
    """Checks every choice that is not a tensor and writes them as one line (`method`)."""
    if not isinstance(coupling, Coupling):
        raise TypeError(f"coupling must be an ibnn coupling, got {coupling!r}")
    chosen, nonlinearity = solvers.resolve(solver), sigmas.resolve(sigma)
    if adjoint not in method.ADJOINTS:
        raise ValueError(f"adjoint={adjoint!r} is not known; expected one of {method.ADJOINTS}")
    if on_failure not in method.ON_FAILURE:
        raise ValueError(
            f"on_failure={on_failure!r} is not known; expected one of {method.ON_FAILURE}"
        )
    for name, value in (("atol", atol), ("rtol", rtol)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a non-negative number, got {value!r}")
    if max_steps is not None and (not isinstance(max_steps, int) or max_steps < 0):
        raise ValueError(f"max_steps must be a non-negative int, got {max_steps!r}")
    double = isinstance(y, Tensor) and y.dtype == torch.float64
    default = _ACCURACY[torch.float64 if double else torch.float32]
    how = method.write(
        coupling.kernel,
        nonlinearity.key,
        solver if isinstance(solver, str) else solvers.key(chosen),
        adjoint,
        on_failure,
        default if atol is None else float(atol),
        default if rtol is None else float(rtol),
        max_steps,
        monitor,
    )
    if "@" in how:
        how = method.OwnParts(how)
        how.parts = (nonlinearity, chosen)
    return how


def solve_described(
    y: Tensor,
    lam: float | Tensor,
    slope: float | Tensor,
    coupling: Coupling,
    start: Tensor | None,
    how: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z, and per row (flat): converged, residual, steps."""
    rows = Rows(y, coupling)
    weight = coupling.weight(rows.dtype)
    weight = None if weight is None else weight.to(y.device)
    begin = None
    if start is not None:
        if start.shape != y.shape:
            raise ValueError(
                f"start must have y's shape {tuple(y.shape)}, got {tuple(start.shape)}"
            )
        begin = rows.flatten(start.detach())
    flat = rows.flatten(y)
    lam_rows, slope_rows = rows.per_row("lam", lam), rows.per_row("slope", slope)
    direct = method.adjoint_of(how) == "unrolled" or method.solver_of(how).startswith("lite")
    apply = _solve_directly if direct else ImplicitSolve.apply
    z, converged, worst, steps = apply(flat, lam_rows, slope_rows, weight, begin, rows.units, how)
    return rows.restore(z), converged, worst, steps


def _solve_directly(y, lam, slope, weight, start, units, how):
    """The solver's own steps, recorded by autograd."""
    chosen = method.read(how)
    p = slope.unsqueeze(-1)

    def pair_sum(z: Tensor, a: Tensor | None, order: int) -> Tensor:
        return PairSum.apply(z, a, weight, order, units, how)

    if not y.numel():
        return ImplicitSolve.apply(y, lam, slope, weight, start, units, how)

    def linear_solve(z: Tensor, g: Tensor, strength: Tensor) -> Tensor:
        return LinearSolve.apply(z, g, strength, weight, units, how)[0]

    system = ops.system(y * p, lam * slope, slope, weight, units, chosen, pair_sum)
    system = replace(system, differentiable_solve=linear_solve)
    begin = system.y if start is None else start * p
    found = chosen.solver.find(system, begin, chosen.max_steps)
    converged, worst = found.excess <= 1, found.residual / slope.detach()
    if not chosen.solver.approximate:
        report("implicit bias", ~converged, worst, chosen.on_failure, None)
    return found.z / p, converged, worst, found.steps
