"""Where no engine serves: the chosen solver, and conjugate gradients for the adjoint, on pair sums.

Rows are solved about the end of their range next to 0, and in doubles where float32 lacks the
digits: near the threshold, and wherever it did not do.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ibnn import engine as engines
from ibnn._core.options import SolveOptions
from ibnn._tensors import has_doubles
from ibnn.coupling.sums import Products
from ibnn.engine.base import Case, Engine
from ibnn.sigma import BUILT_IN, HARDTANH
from ibnn.solver.base import Found
from ibnn.solver.linear import conjugate_gradients
from ibnn.solver.system import GRADIENT_ERROR, LOOSER, LinearSolve, PairSum, System

# accuracy of z where none is asked for: a few roundings above the best the dtype can do
_ACCURACY = {torch.float32: 2e-6, torch.float64: 1e-12}
# rows narrower than this are solved as if they were this wide: sigma is straight there, even
# where z is a thousand times wider than y, and squares of residuals do not underflow
_NARROWEST = {torch.float32: 1e-9, torch.float64: 1e-12}
# below this margin float32 is not tried
_MIN_MARGIN = 0.25
_MOST_PRODUCTS = 500
# what fast sums of doubles may be off by: up to 4e-14 was measured, at 2 to 2,000 units
_SUM_ERROR = 4e-14
# units of the longest row whose sums are written out pair by pair where that is too much
_MAX_DIRECT_UNITS = 4096


def tolerances(options: SolveOptions, dtype: torch.dtype) -> tuple[float, float]:
    default = _ACCURACY[dtype]
    atol = default if options.atol is None else options.atol
    return atol, default if options.rtol is None else options.rtol


def pair_sum(
    z: Tensor,
    a: Tensor | None,
    weight: Tensor | None,
    order: int,
    units: Sequence[int],
    options: SolveOptions,
) -> Tensor:
    """P_n(z, a), by the engine that has it."""
    engine, case = engine_for_sums(z, order, units, options)
    return engine.pair_sum(case, z, a, weight)


def bias_change(z: Tensor, v: Tensor, units: Sequence[int], options: SolveOptions) -> Tensor:
    """P_1(z, v) - v P_1(z, 1), by the engine that has it; uniform weights."""
    engine, case = engine_for_sums(z, 1, units, options)
    return engine.bias_change(case, z, v, None)


def slope_change(z: Tensor, units: Sequence[int], options: SolveOptions) -> Tensor:
    """How B(z) changes as the slope grows, times the slope; uniform weights.

    Without a sum of its own it is DB z. DB ignores a shift of z, which would cost digits; and it is
    a difference of terms as large as z, which takes a double's.
    """
    own = engine_for_sums(z, 1, units, options)
    found = own[0].slope_change(own[1], z)
    if found is not None:
        return found
    fine = finer(z)
    return bias_change(fine, centered(fine), units, options).to(z.dtype)


def finer(z: Tensor) -> Tensor:
    """z in double, where its device has that."""
    return z.double() if has_doubles(z) else z


def centered(z: Tensor) -> Tensor:
    """z without its median, of each row."""
    return z - z.detach().median(-1, keepdim=True).values if z.numel() else z


def engine_for_sums(
    z: Tensor, order: int, units: Sequence[int], options: SolveOptions
) -> tuple[Engine, Case]:
    """The engine that has the sums of this order."""
    case = engines.case_of("pair_sum", z, options.sums, options.sigma, units, order)
    engine = engines.choose(case, options.engine)
    assert engine is not None  # the portable one has every sum
    return engine, case


def has_positive_pairs(options: SolveOptions) -> bool:
    """Whether K_ik = w_ik s'(z_k - z_i) is positive semidefinite wherever z is: uniform weights,
    and an s' with a positive Fourier transform. Then no eigenvalue of J = diag(1 - c d) + c K is
    below 1 - c d, d = K 1, where that is positive."""
    return options.is_uniform and options.sigma in BUILT_IN and options.sigma is not HARDTANH


def system(
    y: Tensor,
    strength: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    options: SolveOptions,
    sums: PairSum | None = None,
    linear_solve: LinearSolve | None = None,
) -> System:
    """The equation of these rows; y and strength already carry the slope."""
    atol, rtol = tolerances(options, y.dtype)
    fixed = None if weight is None else weight.detach()
    steepest = options.sigma.slope_bound
    eigenvalue = steepest * options.sums.eigenvalue_bound(fixed)
    # a bound is not enough near the threshold
    if fixed is not None and y.numel() and bool((strength * eigenvalue > 1 - _MIN_MARGIN).any()):
        eigenvalue = min(eigenvalue, steepest * options.sums.largest_eigenvalue(fixed, units))

    def products(z: Tensor) -> Products:
        engine, case = engine_for_sums(z, 1, units, options)
        return engine.products(case, z, weight)

    def plain_sum(z: Tensor, a: Tensor | None, order: int) -> Tensor:
        return pair_sum(z, a, weight, order, units, options)

    return System(
        y=y,
        strength=strength.unsqueeze(-1),
        atol=(atol * slope.detach()).unsqueeze(-1),
        rtol=rtol,
        pair_sum=sums or plain_sum,
        eigenvalue=eigenvalue,
        self_weight=options.sums.self_weight(weight, units),
        falls=not options.sigma.certified,
        products=None if sums else products,
        differentiable_solve=linear_solve,
    )


def fallback_solve(
    y: Tensor,
    lam: Tensor,
    slope: Tensor,
    begin: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    options: SolveOptions,
) -> Found:
    """z of rows before the slope, found from `begin` to the accuracy of y's dtype."""
    atol, rtol = tolerances(options, y.dtype)
    options = replace(options, atol=atol, rtol=rtol)
    low, high = y.amin(-1, keepdim=True), y.amax(-1, keepdim=True)
    origin = torch.zeros_like(low).clamp(low, high)
    p = slope.unsqueeze(-1)
    spread = (high - low) * p
    width = _NARROWEST[y.dtype]
    equation = system(y, lam * slope, slope, weight, units, options)
    # above the threshold units of a narrow row part as far as sigma is not straight
    narrow = (spread > 0) & (spread < width) & equation.convex().unsqueeze(-1)
    upscale = torch.where(narrow, (width / spread).log2().floor().exp2(), 1)
    upscale = upscale.clamp(max=torch.finfo(y.dtype).max).to(y.dtype)
    scaled = (y - origin) * p * upscale
    start = (begin - origin) * p * upscale
    start = torch.where(start.isfinite(), start, scaled)
    equation = replace(equation, y=scaled)
    found = _find(equation, lam, slope, start, weight, units, options)
    z = origin + found.z / upscale / p
    residual = found.residual / (upscale * p).squeeze(-1)
    return replace(found, z=z.to(y.dtype), residual=residual.to(y.dtype))


def _find(equation: System, lam, slope, start, weight, units, options) -> Found:
    y, solver = equation.y, options.solver
    doubles = y.dtype == torch.float32 and has_doubles(y)
    # other solvers, and counted steps, are shown as they are
    if not doubles or not solver.allows_engine or options.max_steps is not None:
        found = solver.find(equation, start, options.steps_allowed)
        return _resolve_noisy_rows(equation, found, units, options) if options.is_uniform else found
    again = (equation.margin < _MIN_MARGIN).squeeze(-1) & equation.convex()
    found = Found(
        start,
        torch.full_like(lam, torch.inf),
        torch.full_like(lam, torch.inf),
        torch.zeros_like(lam, dtype=torch.int32),
    )
    easy = (~again).nonzero().squeeze(-1)
    if len(easy):
        part = solver.find(equation.rows(easy), start[easy], options.steps_allowed)
        found = found.updated(easy, part)
    hard = (~(found.excess <= 1)).nonzero().squeeze(-1)
    if len(hard):
        y, lam, slope, start = (t[hard].double() for t in (y, lam, slope, found.z))
        w = None if weight is None else weight.double()
        equation = system(y, lam * slope, slope, w, units, options)
        exact = solver.find(equation, start, options.steps_allowed)
        found = Found(*(t.double() if t.is_floating_point() else t for t in vars(found).values()))
        found = found.updated(hard, exact)
    return found


def noise_exceeds_tolerance(strength: Tensor, atol: Tensor) -> Tensor:
    """Per row, whether J enlarges the noise of fast sums of doubles beyond what is promised."""
    enlarged = _SUM_ERROR * strength.abs() / (1 - strength.clamp(min=0))
    return (strength < 1) & (enlarged > LOOSER[torch.float64] * atol)


def _resolve_noisy_rows(
    equation: System, found: Found, units: Sequence[int], options: SolveOptions
):
    """Rows that are noisy (next to the threshold, with a small slope) once more, pair by pair;
    reported where they are too long for that."""
    noisy = noise_exceeds_tolerance(equation.strength.squeeze(-1), equation.atol.squeeze(-1))
    index = noisy.nonzero().squeeze(-1)
    if equation.y.dtype != torch.float64 or not len(index):
        return found

    def every_pair(z: Tensor, a: Tensor | None, order: int) -> Tensor:
        return options.sums.pair_sum(z, a, None, order, options.sigma, units)

    part = replace(equation.rows(index), pair_sum=every_pair, products=None)
    if (
        part.y.shape[-1] <= _MAX_DIRECT_UNITS
        and options.solver.allows_engine
        and options.max_steps is None
    ):
        begin = found.z[index]
        return found.updated(index, options.solver.find(part, begin, options.steps_allowed))
    return replace(found, excess=found.excess.index_fill(0, index, torch.inf))


def fallback_adjoint(
    z: Tensor,
    g: Tensor,
    strength: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    options: SolveOptions,
) -> tuple[Tensor, Tensor, Tensor]:
    """v with J(z) v = g, a bound of its relative error, and v . B(z), of each row."""
    equation = system(z, strength, torch.ones_like(strength), weight, units, options)
    jacobian, diagonal = equation.linearised(z)
    rtol = 1e-6 if z.dtype == torch.float32 else 1e-12
    v, _ = conjugate_gradients(jacobian, g, diagonal, rtol, _MOST_PRODUCTS)
    # the true residual, in units where squares neither under- nor overflow
    unit = g.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(g.dtype).tiny)
    margin = equation.margin
    if has_positive_pairs(options):
        least = (diagonal - equation.strength * equation.self_weight).amin(-1, keepdim=True)
        steep = (strength >= 1).unsqueeze(-1)
        margin = torch.where(steep & (least > 0), least.clamp(1e-9, 1), margin)
    gap = (jacobian(v / unit) - g / unit).norm(dim=-1)
    size = (v / unit).norm(dim=-1).clamp_min(torch.finfo(g.dtype).tiny)
    # J is symmetric, with no eigenvalue below the margin
    error = gap / (size * margin.squeeze(-1))
    v = torch.where(strength.unsqueeze(-1) == 0, g, v)
    dot = (v / unit * equation.bias(z)).sum(-1) * unit.squeeze(-1)
    if z.dtype == torch.float32 and has_doubles(z):
        again = (error > 0.2 * GRADIENT_ERROR[z.dtype]).nonzero().squeeze(-1)
        if len(again):
            w = None if weight is None else weight.double()
            z, g, strength = (t[again].double() for t in (z, g, strength))
            exact = fallback_adjoint(z, g, strength, w, units, options)
            for whole, part in zip((v, error, dot), exact, strict=True):
                whole[again] = part.to(whole.dtype)
    return v, error, dot
