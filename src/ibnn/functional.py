"""The neuron as functions: implicit_bias, solve, energy, residual."""

import torch
from torch import Tensor

from ibnn import sigma as sigmas
from ibnn import solver as solvers
from ibnn._core import above_threshold, pair_sums
from ibnn._core.options import SolveOptions
from ibnn._core.rows import check_like, rows_of
from ibnn._core.solution import Solution
from ibnn._core.solve import check_readable_slope, solve_rows, value_of_rows, weight_for
from ibnn.coupling import Coupling, Uniform, check_is_coupling
from ibnn.sigma import Sigma
from ibnn.solver import Solver


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
    engine: str | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_steps: int | None = None,
    on_failure: str = "warn",
) -> Tensor:
    """The z that solves `z_i = y_i - lam * sum_k w_ik sigma(slope * (z_k - z_i))`.

    Examples:
        >>> import torch
        >>> y = torch.tensor([[-0.1, 0.05, 0.1]])
        >>> implicit_bias(y, -0.2)  # lam < 0 pulls units together
        tensor([[-0.0256,  0.0288,  0.0468]])

    Args:
        y: the input, any real floating-point tensor; half precision is solved in float32.
        lam: strength of the coupling, a scalar or one value per channel (the dim right before the
            units). Below zero units are pulled together, above zero pushed apart; beyond
            `uniqueness_threshold` there may be several solutions; the one found with uniform
            weights is that to which z <- y - lam B(z) descends from z = y.
        slope: steepness p of sigma, positive; a scalar or one value per channel.
        coupling: which dims of `y` are units, and the weights between them (default
            `Uniform(dims=-1)`). The other dims are independent rows.
        sigma: the dendritic nonlinearity: "tanh", "hardtanh", "arctan", "erf" or a `Sigma`.
        solver: "newton" (default), "gradient", "picard", "anderson", "broyden", "lite" (one
            explicit step, not a solution) or a solver object with its settings.
        adjoint: how gradients are computed: "implicit" (exact), "unrolled" (through the solver's
            steps) or "jfb" (Jacobian-free).
        start: where the solver starts, of y's shape (default: y itself). Given one, no engine is
            used; above the threshold it decides which solution is found.
        engine: "native", "triton" or "portable" to use this one (see `ibnn.engines`); default: the
            fastest that applies.
        atol: absolute error allowed in z (default: a few times the rounding error of the dtype).
        rtol: error allowed in z relative to |y| (default: likewise).
        max_steps: largest number of solver steps (default: the solver's own). A row for which an
            engine needs more is solved by the solver itself, starting from y.
        on_failure: for rows that did not converge "raise" a `ConvergenceError`, "warn" (default) or
            "ignore"; also in the backward pass.
    """
    coupling = Uniform(-1) if coupling is None else coupling
    options = solve_options(
        coupling, sigma, solver, adjoint, engine, atol, rtol, max_steps, on_failure
    )
    return value_of_rows(y, lam, slope, coupling, start, options)


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
    engine: str | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_steps: int | None = None,
    on_failure: str = "warn",
) -> Solution:
    """`implicit_bias` with diagnostics: z, and for each row whether and how it was solved.

    Examples:
        >>> import torch
        >>> solve(torch.linspace(-1, 1, 6).reshape(2, 3), -0.1).converged
        tensor([True, True])

    Args:
        y: the input, as in `implicit_bias`.
        lam: strength of the coupling, a scalar or one value per channel.
        slope: steepness p of sigma, a scalar or one value per channel.
        coupling: weights between the units of a row (default `Uniform(dims=-1)`).
        sigma: the dendritic nonlinearity, a name or a `Sigma`.
        solver: a name or a solver object.
        adjoint: how gradients are computed: "implicit", "unrolled" or "jfb".
        start: where the solver starts, of y's shape (default: y itself).
        engine: "native", "triton" or "portable" to use this one.
        atol: absolute error allowed in z.
        rtol: error allowed in z relative to |y|.
        max_steps: largest number of solver steps.
        on_failure: for rows that did not converge "raise", "warn" or "ignore".
    """
    coupling = Uniform(-1) if coupling is None else coupling
    options = solve_options(
        coupling, sigma, solver, adjoint, engine, atol, rtol, max_steps, on_failure
    )
    z, *record = solve_rows(y, lam, slope, coupling, start, options)
    rows = rows_of(y, coupling)
    with torch.no_grad():
        values = rows.per_row("lam", lam), rows.per_row("slope", slope)
        weight = weight_for(rows, coupling, y)
        unique = above_threshold.is_unique(rows.flatten(z), *values, weight, rows.units, options)
    return Solution(z, *(r.reshape(rows.shape) for r in (*record, unique)))


def solve_options(
    coupling: Coupling,
    sigma: str | Sigma = "tanh",
    solver: str | Solver = "newton",
    adjoint: str = "implicit",
    engine: str | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_steps: int | None = None,
    on_failure: str = "warn",
    monitor: int = 0,
) -> SolveOptions:
    """The options of a solve, from keyword arguments."""
    check_is_coupling(coupling)
    return SolveOptions(
        coupling.sums,
        sigmas.resolve(sigma),
        solvers.resolve(solver),
        adjoint=adjoint,
        engine=engine,
        atol=atol,
        rtol=rtol,
        max_steps=max_steps,
        on_failure=on_failure,
        monitor=monitor,
    )


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

    Examples:
        >>> import torch
        >>> energy(torch.zeros(2), torch.ones(2), lam=-0.1)
        tensor(1.)

    Args:
        z: where it is evaluated, of y's shape.
        y: the input of the neuron.
        lam: strength of the coupling, a scalar or one value per channel.
        slope: steepness p of sigma, a scalar or one value per channel.
        coupling: weights between the units of a row (default `Uniform(dims=-1)`).
        sigma: the dendritic nonlinearity, a name or a `Sigma`.
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

    Examples:
        >>> import torch
        >>> residual(torch.zeros(3), torch.tensor([0.0, 1.0, 2.0]), lam=0.05)
        tensor([ 0., -1., -2.])

    Args:
        z: where it is evaluated, of y's shape.
        y: the input of the neuron.
        lam: strength of the coupling, a scalar or one value per channel.
        slope: steepness p of sigma, a scalar or one value per channel.
        coupling: weights between the units of a row (default `Uniform(dims=-1)`).
        sigma: the dendritic nonlinearity, a name or a `Sigma`.
    """
    coupling = Uniform(-1) if coupling is None else coupling
    rows, flat, target, lam_rows, p, pair_sum = _terms(z, y, lam, slope, coupling, sigma)
    bias = pair_sum(flat * p.unsqueeze(-1), 0)
    return rows.restore(flat - target + lam_rows.unsqueeze(-1) * bias)


def _terms(z, y, lam, slope, coupling, sigma):
    """What energy and residual are made of, gradients included."""
    options = solve_options(coupling, sigma)
    rows = rows_of(y, coupling)
    check_like("z", z, y)
    weight = weight_for(rows, coupling, y)

    def pair_sum(scaled: Tensor, order: int) -> Tensor:
        return pair_sums.pair_sum(scaled, None, weight, order, rows.units, options)

    lam_rows, slope_rows = rows.per_row("lam", lam), rows.per_row("slope", slope)
    check_readable_slope(slope_rows)
    return rows, rows.flatten(z), rows.flatten(y), lam_rows, slope_rows, pair_sum
