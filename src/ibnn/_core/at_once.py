"""The quick way of a call: rows of one lam and slope, which an engine solves at one go.

Most calls are of this kind, and a layer of few units takes longer to call than to solve. So what
can be known before a call is kept (`_plan`), torch is asked once whether it is up to something, and
the graph gets one node. None stands for what is not so simple, and is left to `solve`.
"""

import ctypes
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from ibnn import engine as engines
from ibnn._core import adjoint, same_values
from ibnn._core.opaque import is_intercepted, is_watched
from ibnn._core.options import SolveOptions
from ibnn._core.rows import Rows, memory_format_of
from ibnn.coupling import Coupling
from ibnn.engine import Case, Engine

_HOST = torch.device("cpu")


class Plan(NamedTuple):
    """How y splits into rows, and who solves them."""

    rows: Rows
    case: Case
    engine: Engine


@engines.kept_until_registered
def _plan(shape, dims, dtype, memory_format, values, sums, sigma, demanded) -> Plan | None:
    """None where rows have more than one lam or slope, or one they would have to round."""
    for value_shape, value_dtype in values:
        if value_shape not in ((), (1,)) or value_dtype not in (dtype, torch.float32):
            return None
    if not dtype.is_floating_point or 0 in shape:
        return None
    rows = Rows(shape, dims, dtype, _HOST, memory_format)
    case = Case("solve", sums, sigma, rows.dtype, _HOST.type, rows.count, rows.units)
    engine = engines.choose(case, demanded)
    return Plan(rows, case, engine) if engine is not None and engine.alike is not None else None


def value_at_once(
    y: Tensor, lam: Any, slope: Any, coupling: Coupling, options: SolveOptions
) -> Tensor | None:
    """z of z + lam B(z) = y, on the host and in plain torch."""
    if is_intercepted(y, lam, slope) or y.is_nested or not options.uses_engines:
        return None
    if not isinstance(lam, Tensor) or not isinstance(slope, Tensor):
        return None
    if not (y.is_cpu and lam.is_cpu and slope.is_cpu):
        return None
    plan = _plan(
        y.shape,
        tuple(coupling.dims),
        y.dtype,
        memory_format_of(y),
        ((lam.shape, lam.dtype), (slope.shape, slope.dtype)),
        options.sums,
        options.sigma,
        engines.demanded(options.engine),
    )
    if plan is None:
        return None
    rows = plan.rows
    coupling.check_units(rows.units)
    weight = coupling.checked_weight(rows.dtype, rows.units)
    if weight is not None and not weight.is_cpu:
        return None
    flat = y if rows.are_plain else rows.flatten(y.detach()).contiguous()
    found = same_values.solve(plan.engine, plan.case, flat, lam, slope, weight, options)
    if found is None:
        return None
    learnt = lam.requires_grad or slope.requires_grad or y.requires_grad
    if torch.is_grad_enabled() and (learnt or (weight is not None and weight.requires_grad)):
        # a copy that was made for the solve alone has room for slope * z: fresh memory costs more
        room = flat if flat.data_ptr() != y.data_ptr() else None
        return _node(y, lam, slope, weight, (found[0], room), plan, options)[0]
    return found[0] if rows.are_plain else rows.owned(found[0])


class _Node(Function):
    """A solve that has been made, as autograd sees it; gradients are made of its second output,
    slope * z, so that z may be changed in place."""

    @staticmethod
    def forward(ctx, y, lam, slope, weight, solved, plan, options):  # type: ignore[override]
        (z, room), rows = solved, plan.rows
        scaled = torch.mul(z, slope, out=room)
        ctx.save_for_backward(lam, slope, weight, scaled)
        ctx.rows, ctx.units, ctx.options, ctx.plan = rows, rows.units, options, plan
        ctx.set_materialize_grads(False)
        return z if rows.are_plain else rows.owned(z), scaled

    @staticmethod
    def backward(ctx, g, g_scaled):  # type: ignore[override]
        wanted = ctx.needs_input_grad
        simple = g_scaled is None and not wanted[2] and not wanted[3]
        if simple and g is not None and ctx.options.adjoint == "implicit" and not is_watched(g):
            lam, slope, weight, z = ctx.saved_tensors
            rows, case, engine = ctx.plan
            strength = lam.item() * slope.item()
            if z.dtype is torch.float32:
                strength = ctypes.c_float(strength).value  # as the product of two float32
            flat = g if rows.are_plain else rows.flatten(g)
            found = same_values.adjoint(engine, case, z, flat.contiguous(), strength, weight)
            if found is not None:
                v, dot = found
                of_lam = lam.new_full(lam.shape, -engine.alike.total(dot)) if wanted[1] else None
                return v if rows.are_plain else rows.restore(v), of_lam, *(None,) * 5
        return *adjoint.gradients(ctx, g, g_scaled), *(None,) * 3


# `apply` looks for torch.func at work, which `value_at_once` has done
_node: Any = super(Function, _Node).apply  # type: ignore[attr-defined]
