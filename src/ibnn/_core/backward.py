"""The way back: J(z) v = g for every row, by an engine where it can, the rest in plain torch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ibnn import engine as engines
from ibnn._core import deferred_failures, solution
from ibnn._core.fallback import fallback_adjoint
from ibnn._core.options import SolveOptions
from ibnn.solver.system import GRADIENT_ERROR


def solve_adjoint(
    z: Tensor,
    g: Tensor,
    strength: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    options: SolveOptions,
) -> tuple[Tensor, Tensor]:
    """v with J(z) v = g, and v . B(z) of each row; z in units of slope 1; strength has a value of
    each row, or one for all."""
    case = engines.case_of("adjoint", z, options.sums, options.sigma, units)
    engine = engines.choose(case, options.engine)
    strength = strength.expand(len(z))
    above = None if deferred_failures.is_asynchronous(z) else _above(strength, options)
    if above is not None and (engine is None or not engine.descends(case)):
        if not bool(above.all()):  # each row as it would be alone
            return _in_parts(above, z, g, strength, units, options)
        engine = None  # it would have no way of its own
    allowed = GRADIENT_ERROR[z.dtype]
    if engine is None:
        v, error, dot = fallback_adjoint(z, g, strength, weight, units, options)
    else:
        v, error, dot = engine.adjoint(case, z, g, strength, weight)
        if deferred_failures.is_asynchronous(z) or not bool(strength.all()):
            # J is the identity where there is no strength, bit by bit
            v = torch.where((strength == 0).unsqueeze(-1), g, v)
        if above is not None:
            left = (above & (error > allowed) & (error < 1)).nonzero().squeeze(-1)
            if len(left):
                part = z[left], g[left], strength[left]
                exact = fallback_adjoint(*part, weight, units, options)
                for whole, some in zip((v, error, dot), exact, strict=True):
                    whole[left] = some.to(whole.dtype)
    if deferred_failures.is_asynchronous(z) or not bool((error <= allowed).all()):
        # a row that is not finite needs no further word: it was reported on the way forward
        failed = (error > allowed) & error.isfinite()
        at_saddle = error == engines.AT_SADDLE if engine is not None else None
        told = options.on_failure, options.layer_monitor
        solution.report("implicit bias, backward", failed, error, *told, at_saddle)
    return v, dot


def _above(strength: Tensor, options: SolveOptions) -> Tensor | None:
    """The rows above the threshold; None if there are none."""
    if not options.is_uniform or not options.sigma.certified:
        return None
    above = strength >= 1
    return above if bool(above.any()) else None


def _in_parts(
    part: Tensor,
    z: Tensor,
    g: Tensor,
    strength: Tensor,
    units: Sequence[int],
    options: SolveOptions,
) -> tuple[Tensor, Tensor]:
    v, dot = torch.empty_like(g), torch.empty_like(strength)
    for index in (part.nonzero().squeeze(-1), (~part).nonzero().squeeze(-1)):
        some = z[index], g[index], strength[index]
        v[index], dot[index] = solve_adjoint(*some, None, units, options)
    return v, dot
