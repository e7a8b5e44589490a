"""How gradients come back through a solve: implicit differentiation, shared by every solver.

At the solution J dz = dy - B dlam - lam dB, with J = I + lam DB symmetric. So one linear solve
J v = g carries the gradient g of z, and every other gradient is a sum against v; the same solve
carries tangents forward. The solve, the linear solve and the sums P_n (`pair_sums`) are closed
under differentiation, hence gradients of gradients. Everything here works in units where sigma has
slope 1, except `implicit_solve` itself.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from ibnn._core import ops
from ibnn._core.fallback import centered, finer
from ibnn._core.pair_sums import moved_sum, pair_outer, pair_sum, slope_change, twist
from ibnn._core.transforms import differentiable, vmap_rows
from ibnn._tensors import is_plain


@differentiable
class linear_solve(Function):
    """v = J(z)^-1 g and v . B(z): J v = v + c (P_1(z, v) - v P_1(z, 1))."""

    @staticmethod
    def forward(z, g, strength, weight, units, options):  # type: ignore[override]
        return ops.solve_adjoint(z, g, strength, weight, units, options.text)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        z, _, strength, weight, ctx.units, ctx.options = inputs
        ctx.save_for_backward(z, strength, weight, output[0])
        ctx.save_for_forward(z, strength, weight, output[0])

    @staticmethod
    def backward(ctx, grad_v, grad_dot):  # type: ignore[override]
        z, strength, weight, v = ctx.saved_tensors
        rest = ctx.units, ctx.options
        c, of_dot = strength.unsqueeze(-1), grad_dot.unsqueeze(-1)

        def total(a: Tensor | None, order: int) -> Tensor:
            return pair_sum(z, a, weight, order, *rest)

        bias_change = total(v, 1) - v * total(None, 1)
        # J q = the whole gradient of v: its own, and through v . B(z)
        q, _ = linear_solve(z, grad_v + of_dot * total(None, 0), strength, weight, *rest)
        grad_z = grad_strength = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_z = of_dot * bias_change - c * twist(z, q, v, weight, rest)
        if ctx.needs_input_grad[2]:
            grad_strength = -_row_sum(q * bias_change)
        if weight is not None and ctx.needs_input_grad[3]:
            grad_weight = (
                pair_outer(z, of_dot * v, None, weight, 0, *rest)
                - pair_outer(z, c * q, v, weight, 1, *rest)
                + pair_outer(z, c * q * v, None, weight, 1, *rest)
            )
        return grad_z, q, grad_strength, grad_weight, None, None

    @staticmethod
    def tangent(ctx, dz, dg, dstrength, dweight, *_):  # type: ignore[override]
        z, strength, weight, v = ctx.saved_tensors
        rest = ctx.units, ctx.options
        c = strength.unsqueeze(-1)

        def total(a: Tensor | None, order: int, w: Tensor | None = weight) -> Tensor:
            return pair_sum(z, a, w, order, *rest)

        bias = total(None, 0)
        right = torch.zeros_like(v) if dg is None else dg
        bias_change = torch.zeros_like(v)
        if dz is not None:
            bias_change = bias_change + moved_sum(z, None, weight, dz, 0, rest)
            twist = moved_sum(z, v, weight, dz, 1, rest)
            right = right - c * (twist - v * moved_sum(z, None, weight, dz, 1, rest))
        if dstrength is not None:
            right = right - dstrength.unsqueeze(-1) * (total(v, 1) - v * total(None, 1))
        if dweight is not None:
            bias_change = bias_change + total(None, 0, dweight)
            right = right - c * (total(v, 1, dweight) - v * total(None, 1, dweight))
        dv, _ = linear_solve(z, right, strength, weight, *rest)
        return dv, _row_sum(dv * bias) + _row_sum(v * bias_change)

    @staticmethod
    def vmap(info, in_dims, z, g, strength, weight, units, options):  # type: ignore[override]
        return vmap_rows(
            lambda rows, w: linear_solve(*rows, w, units, options),
            info.batch_size,
            (z, g, strength),
            in_dims[:3],
            weight,
            in_dims[3],
        )


@differentiable
class implicit_solve(Function):
    """z of z + lam B(z) = y; slope * z where gradients are `kept` for; and where they are asked
    for, of each row converged, residual and steps.

    y, lam and slope are as `rows` finds them, so that reshaping them is no node of its own in the
    graph, which costs as much as solving a few short rows; rows = None means they are rows already.

    What goes backward is made from slope * z and never from z, which the caller may therefore
    change in place.
    """

    @staticmethod
    def forward(y, lam, slope, weight, start, units, options, kept, rows, asked):  # type: ignore[override]
        if rows is not None:
            y, lam, slope = rows.flatten(y), rows.values(lam), rows.values(slope)
        z, *record = ops.solve(y, lam, slope, weight, start, units, options.text)
        if not kept:
            scaled = z.new_empty(len(z), 0)
        else:
            scaled = z * (slope if slope.numel() == 1 else slope.unsqueeze(-1))
        if rows is not None:
            z = rows.owned(z)
        return (z, scaled, *record) if asked else (z, scaled)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        _, lam, slope, weight, _, ctx.units, ctx.options, kept, ctx.rows, ctx.asked = inputs
        z, scaled, *record = output
        ctx.save_for_backward(lam, slope, weight, scaled)
        ctx.save_for_forward(lam, slope, weight, scaled if kept else z)
        ctx.kept = kept
        ctx.mark_non_differentiable(*record)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g, g_scaled, *_):  # type: ignore[override]
        return *gradients(ctx, g, g_scaled), *(None,) * 6

    @staticmethod
    def tangent(ctx, dy, dlam, dslope, dweight, *_):  # type: ignore[override]
        lam, slope, weight, scaled = ctx.saved_tensors
        rows, rest = ctx.rows, (ctx.units, ctx.options)
        if rows is not None:
            lam, slope = rows.spread(lam), rows.spread(slope)
            dy = None if dy is None else rows.flatten(dy)
            dlam, dslope = (d if d is None else rows.spread(d) for d in (dlam, dslope))
        p = slope.unsqueeze(-1)
        z = scaled
        if not ctx.kept:
            z = (scaled if rows is None else rows.flatten(scaled)) * p
        right = torch.zeros_like(z) if dy is None else dy
        if dlam is not None:
            right = right - dlam.unsqueeze(-1) * pair_sum(z, None, weight, 0, *rest)
        if dslope is not None:
            right = right - (lam / slope * dslope).unsqueeze(-1) * _slope_change(z, weight, rest)
        if dweight is not None:
            right = right - lam.unsqueeze(-1) * pair_sum(z, None, dweight, 0, *rest)
        dz = right
        if ctx.options.adjoint != "jfb":
            dz, _ = linear_solve(z, right, lam * slope, weight, *rest)
        dscaled = dz * p if ctx.kept else dz.new_zeros(len(dz), 0)
        if ctx.kept and dslope is not None:
            dscaled = dscaled + z * (dslope / slope).unsqueeze(-1)
        nothing = (None,) * 3 if ctx.asked else ()
        return dz if rows is None else rows.restore(dz), dscaled, *nothing

    @staticmethod
    def vmap(info, in_dims, y, lam, slope, weight, start, *rest):  # type: ignore[override]
        return vmap_rows(
            lambda rows, w: implicit_solve(*rows[:3], w, rows[3], *rest),
            info.batch_size,
            (y, lam, slope, start),
            (*in_dims[:3], in_dims[4]),
            weight,
            in_dims[3],
        )


def gradients(ctx: Any, g: Tensor | None, g_scaled: Tensor | None) -> tuple[Tensor | None, ...]:
    """Of y, lam, slope and weight, from those of z and of slope * z, which `ctx` has saved."""
    given_lam, given_slope, weight, z = ctx.saved_tensors
    rows, rest = ctx.rows, (ctx.units, ctx.options)
    if g is None and g_scaled is None:
        return (None,) * 4
    lam, slope = given_lam, given_slope
    if rows is not None:
        # gradients of these gradients are summed by autograd, for which each row has its own
        alone = torch.is_grad_enabled() or not is_plain()
        values = rows.spread if alone else rows.values
        lam, slope = values(lam), values(slope)
        g = None if g is None else rows.flatten(g)
        z = z.reshape(rows.count, rows.size)
        g_scaled = None if g_scaled is None else g_scaled.reshape(z.shape)
    of_scaled = None
    if g_scaled is not None:
        of_scaled = _row_sum(g_scaled * z) / slope
        through = g_scaled * slope.unsqueeze(-1)
        g = through if g is None else g + through
    assert g is not None
    if ctx.options.adjoint == "jfb":
        # Jacobian-free: J taken for the identity
        v = g
        dot = _row_sum(v * pair_sum(z, None, weight, 0, *rest))
    else:
        v, dot = linear_solve(z, g, lam * slope, weight, *rest)
    grad_slope = grad_weight = None
    if ctx.needs_input_grad[2]:
        grad_slope = -lam / slope * _row_sum(v * _slope_change(z, weight, rest))
        grad_slope = grad_slope if of_scaled is None else grad_slope + of_scaled
    if weight is not None and ctx.needs_input_grad[3]:
        grad_weight = pair_outer(z, -lam.unsqueeze(-1) * v, None, weight, 0, *rest)
    if rows is None:
        return v, -dot, grad_slope, grad_weight
    grad_lam = -rows.gather(dot, given_lam) if ctx.needs_input_grad[1] else None
    grad_slope = None if grad_slope is None else rows.gather(grad_slope, given_slope)
    return rows.restore(v), grad_lam, grad_slope, grad_weight


def _slope_change(z: Tensor, weight: Tensor | None, rest: Any) -> Tensor:
    """DB z: how B changes as the slope grows, times the slope."""
    if weight is None:
        return slope_change(z, *rest)
    fine = finer(z)
    return moved_sum(fine, None, finer(weight), centered(fine), 0, rest).to(z.dtype)


def _row_sum(x: Tensor) -> Tensor:
    return x.sum(-1)
