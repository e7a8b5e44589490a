"""Fast path of a call: one lam and slope for all rows, one call of an engine, one autograd node.

Most calls are of this kind, and a layer of few units takes longer to call than to solve. So what
depends on shapes alone is cached (`_route`), and whether a transform of torch is active is checked
once. None stands for anything else, which is left to `solve`.
"""

import ctypes
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from ibnn import engine as engines
from ibnn._core import adjoint, scalar_lam
from ibnn._core.custom_op import has_active_transform, needs_dispatch
from ibnn._core.options import SolveOptions
from ibnn._core.rows import Rows, memory_format_of
from ibnn._registry import registry_cache
from ibnn.coupling import Coupling
from ibnn.engine import Case, Engine

_HOST = torch.device("cpu")


class Route(NamedTuple):
    """How y splits into rows, and who solves them."""

    rows: Rows
    case: Case
    case_of_sums: Case
    engine: Engine


@registry_cache
def _route(shape, dims, dtype, memory_format, values, sums, sigma, demanded) -> Route | None:
    """None where rows have more than one lam or slope, or one they would have to round."""
    for value_shape, value_dtype in values:
        if value_shape not in ((), (1,)) or value_dtype not in (dtype, torch.float32):
            return None
    if not dtype.is_floating_point or 0 in shape:
        return None
    rows = Rows(shape, dims, dtype, _HOST, memory_format)
    case = Case("solve", sums, sigma, rows.dtype, _HOST.type, rows.count, rows.units)
    engine = engines.choose(case, demanded)
    if engine is None or engine.scalar_lam is None:
        return None
    return Route(rows, case, case._replace(operation="pair_sum", order=1), engine)


def fast_path(
    y: Tensor, lam: Any, slope: Any, coupling: Coupling, options: SolveOptions, owned: bool = False
) -> Tensor | None:
    """z of z + lam B(z) = y, on the host and in plain torch; y may be overwritten if `owned`."""
    if has_active_transform(y, lam, slope) or not options.uses_engines:
        return None
    if not isinstance(lam, Tensor) or not isinstance(slope, Tensor):
        return None
    if y.is_nested or y.layout is not torch.strided:
        return None
    if not (y.is_cpu and lam.is_cpu and slope.is_cpu):
        return None
    route = _route(
        y.shape,
        tuple(coupling.dims),
        y.dtype,
        memory_format_of(y),
        ((lam.shape, lam.dtype), (slope.shape, slope.dtype)),
        options.sums,
        options.sigma,
        engines.demanded(options.engine),
    )
    if route is None:
        return None
    rows = route.rows
    coupling.check_units(rows.units)
    weight = coupling.checked_weight(rows.dtype, rows.units)
    if weight is not None and not weight.is_cpu:
        return None
    flat = y if rows.are_plain else rows.flatten(y.detach()).contiguous()
    found = scalar_lam.solve(route.engine, route.case, flat, lam, slope, weight, options)
    if found is None:
        return None
    learnt = lam.requires_grad or slope.requires_grad or y.requires_grad
    if torch.is_grad_enabled() and (learnt or (weight is not None and weight.requires_grad)):
        # what was made for the solve alone has room for slope * z: fresh memory costs more
        room = flat.detach() if owned or flat.data_ptr() != y.data_ptr() else None
        return _solve(y, lam, slope, weight, (found[0], room), route, options)[0]
    return found[0] if rows.are_plain else rows.owned(found[0])


class _Solve(Function):
    """A solve that has been made, as autograd sees it; gradients are made of its second output,
    slope * z, so that z may be changed in place."""

    @staticmethod
    def forward(ctx, y, lam, slope, weight, solved, route, options):  # type: ignore[override]
        (z, room), rows = solved, route.rows
        scaled = torch.mul(z, slope, out=room)
        ctx.save_for_backward(lam, slope, weight, scaled)
        ctx.rows, ctx.units, ctx.options, ctx.route = rows, rows.units, options, route
        ctx.set_materialize_grads(False)
        return z if rows.are_plain else rows.owned(z), scaled

    @staticmethod
    def backward(ctx, g, g_scaled):  # type: ignore[override]
        found = None
        if g is not None and g_scaled is None and not ctx.needs_input_grad[3]:
            found = _gradients(ctx, g)
        return *(found or adjoint.gradients(ctx, g, g_scaled)), *(None,) * 3


def _gradients(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...] | None:
    """Of y, lam, slope and (None) weight, by one or two calls of the engine; None if these do not
    give them."""
    if ctx.options.adjoint != "implicit" or needs_dispatch(g):
        return None
    lam, slope, weight, z = ctx.saved_tensors
    rows, case, case_of_sums, engine = ctx.route
    _, of_lam, of_slope, *_ = ctx.needs_input_grad
    change = None
    if of_slope:
        flat = z.reshape(rows.count, rows.size)
        change = engine.slope_change(case_of_sums, flat) if weight is None else None
        if change is None:
            return None
    strength = lam.item() * slope.item()
    if z.dtype is torch.float32:
        strength = ctypes.c_float(strength).value  # as the product of two float32
    flat = g if rows.are_plain else rows.flatten(g)
    found = scalar_lam.adjoint(engine, case, z, flat.contiguous(), strength, weight, ctx.options)
    if found is None:
        return None
    v, dot = found
    lam_gradient = slope_gradient = None
    if of_lam:
        lam_gradient = lam.new_full(lam.shape, -engine.scalar_lam.total(dot))
    if change is not None:
        total = change.mul_(v.view_as(change)).sum().item()
        slope_gradient = slope.new_full(slope.shape, -lam.item() / slope.item() * total)
    return v if rows.are_plain else rows.restore(v), lam_gradient, slope_gradient, None


# `apply` looks for torch.func at work, which `fast_path` has done
_solve: Any = super(Function, _Solve).apply  # type: ignore[attr-defined]
