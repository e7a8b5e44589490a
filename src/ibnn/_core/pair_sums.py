"""The sums over pairs as autograd sees them, with gradients of any order.

P_n(z, a)_i = sum_k w_ik a_k s_n(z_k - z_i) and the sum against it that is a gradient of the weights
are closed under differentiation: each derivative is made of the same sums. z is in units where
sigma has slope 1.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from ibnn._core import ops
from ibnn._core.fallback import centered, finer
from ibnn._core.transforms import differentiable, one_of_batch, vmap_rows


@differentiable
class pair_sum(Function):
    """P_n(z, a) = sum_k w_ik a_k s_n(z_k - z_i)."""

    @staticmethod
    def forward(z, a, weight, order, units, options):  # type: ignore[override]
        return ops.pair_sum(z, a, weight, order, units, options.text)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        z, a, weight, ctx.order, ctx.units, ctx.options = inputs
        ctx.save_for_backward(z, a, weight)
        ctx.save_for_forward(z, a, weight)

    @staticmethod
    def backward(ctx, g):  # type: ignore[override]
        z, a, weight = ctx.saved_tensors
        order, rest = ctx.order, (ctx.units, ctx.options)
        back = None if weight is None else ctx.options.sums.transpose(weight)
        grad_z = grad_a = grad_weight = None
        if ctx.needs_input_grad[0] and order == 0 and a is None and weight is None:
            grad_z = bias_change(z, g, *rest)
        elif ctx.needs_input_grad[0]:
            received = pair_sum(z, g, back, order + 1, *rest) * (-1) ** order
            grad_z = (received if a is None else received * a) - g * pair_sum(
                z, a, weight, order + 1, *rest
            )
        if a is not None and ctx.needs_input_grad[1]:
            grad_a = pair_sum(z, g, back, order, *rest) * (-1) ** (order + 1)
        if weight is not None and ctx.needs_input_grad[2]:
            grad_weight = pair_outer(z, g, a, weight, order, *rest)
        return grad_z, grad_a, grad_weight, None, None, None

    @staticmethod
    def tangent(ctx, dz, da, dweight, *_):  # type: ignore[override]
        z, a, weight = ctx.saved_tensors
        order, rest = ctx.order, (ctx.units, ctx.options)
        change = torch.zeros_like(z)
        if dz is not None:
            change = change + moved_sum(z, a, weight, dz, order, rest)
        if da is not None:
            change = change + pair_sum(z, da, weight, order, *rest)
        if dweight is not None:
            change = change + pair_sum(z, a, dweight, order, *rest)
        return change

    @staticmethod
    def vmap(info, in_dims, z, a, weight, order, units, options):  # type: ignore[override]
        return vmap_rows(
            lambda rows, w: pair_sum(*rows, w, order, units, options),
            info.batch_size,
            (z, a),
            in_dims[:2],
            weight,
            in_dims[2],
        )


def moved_sum(
    z: Tensor, a: Tensor | None, weight: Tensor | None, dz: Tensor, order: int, rest: Any
) -> Tensor:
    """How P_n(z, a) changes as z moves by dz."""
    if order == 0 and a is None and weight is None:
        return bias_change(z, dz, *rest)
    pull = pair_sum(z, dz if a is None else a * dz, weight, order + 1, *rest)
    return pull - dz * pair_sum(z, a, weight, order + 1, *rest)


@differentiable
class bias_change(Function):
    """DB(z) v = P_1(z, v) - v P_1(z, 1) with uniform weights, where DB is symmetric: one pass over
    the units where two sums would be two."""

    @staticmethod
    def forward(z, v, units, options):  # type: ignore[override]
        return ops.bias_change(z, v, units, options.text)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        z, v, ctx.units, ctx.options = inputs
        ctx.save_for_backward(z, v)
        ctx.save_for_forward(z, v)

    @staticmethod
    def backward(ctx, u):  # type: ignore[override]
        z, v = ctx.saved_tensors
        rest = ctx.units, ctx.options
        grad_z = twist(z, u, v, None, rest) if ctx.needs_input_grad[0] else None
        return grad_z, bias_change(z, u, *rest), None, None

    @staticmethod
    def tangent(ctx, dz, dv, *_):  # type: ignore[override]
        z, v = ctx.saved_tensors
        rest = ctx.units, ctx.options
        change = torch.zeros_like(z) if dv is None else bias_change(z, dv, *rest)
        if dz is not None:
            change = change + moved_sum(z, v, None, dz, 1, rest)
            change = change - v * moved_sum(z, None, None, dz, 1, rest)
        return change

    @staticmethod
    def vmap(info, in_dims, z, v, units, options):  # type: ignore[override]
        return vmap_rows(
            lambda rows, _: bias_change(*rows, units, options),
            info.batch_size,
            (z, v),
            in_dims[:2],
            None,
            None,
        )


@differentiable
class slope_change(Function):
    """DB(z) z, uniform weights: how B changes as the slope grows, times the slope."""

    @staticmethod
    def forward(z, units, options):  # type: ignore[override]
        return ops.slope_change(z, units, options.text)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        z, ctx.units, ctx.options = inputs
        ctx.save_for_backward(z)
        ctx.save_for_forward(z)

    @staticmethod
    def backward(ctx, g):  # type: ignore[override]
        (z,), rest = ctx.saved_tensors, (ctx.units, ctx.options)
        fine, g = finer(z), finer(g)
        change = bias_change(fine, g, *rest) + twist(fine, g, centered(fine), None, rest)
        return change.to(z.dtype), None, None

    @staticmethod
    def tangent(ctx, dz, *_):  # type: ignore[override]
        (z,), rest = ctx.saved_tensors, (ctx.units, ctx.options)
        fine, dz = finer(z), finer(dz)
        u = centered(fine)
        change = bias_change(fine, dz, *rest) + moved_sum(fine, u, None, dz, 1, rest)
        return (change - u * moved_sum(fine, None, None, dz, 1, rest)).to(z.dtype)

    @staticmethod
    def vmap(info, in_dims, z, units, options):  # type: ignore[override]
        return vmap_rows(
            lambda rows, _: slope_change(*rows, units, options),
            info.batch_size,
            (z,),
            in_dims[:1],
            None,
            None,
        )


def twist(z: Tensor, q: Tensor, v: Tensor, weight: Tensor | None, rest: Any) -> Tensor:
    """The derivative of q . DB(z) v by z: a third-order sum over pairs."""

    def total(a: Tensor | None) -> Tensor:
        return pair_sum(z, a, weight, 2, *rest)

    return q * v * total(None) + total(q * v) - q * total(v) - v * total(q)


@differentiable
class pair_outer(Function):
    """The derivative of sum(g * P_n(z, a)) by the weights; `weight` only lends its shape."""

    @staticmethod
    def forward(z, g, a, weight, order, units, options):  # type: ignore[override]
        return ops.pair_outer(z, g, a, weight, order, units, options.text)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        z, g, a, weight, ctx.order, ctx.units, ctx.options = inputs
        ctx.save_for_backward(z, g, a)
        ctx.save_for_forward(z, g, a, weight)

    @staticmethod
    def backward(ctx, cotangent):  # type: ignore[override]
        z, g, a = ctx.saved_tensors
        order, rest = ctx.order, (ctx.units, ctx.options)
        back = ctx.options.sums.transpose(cotangent)
        grad_z = grad_g = grad_a = None
        if ctx.needs_input_grad[0]:
            received = pair_sum(z, g, back, order + 1, *rest) * (-1) ** order
            grad_z = (received if a is None else received * a) - g * pair_sum(
                z, a, cotangent, order + 1, *rest
            )
        if ctx.needs_input_grad[1]:
            grad_g = pair_sum(z, a, cotangent, order, *rest)
        if a is not None and ctx.needs_input_grad[2]:
            grad_a = pair_sum(z, g, back, order, *rest) * (-1) ** (order + 1)
        return grad_z, grad_g, grad_a, None, None, None, None

    @staticmethod
    def tangent(ctx, dz, dg, da, *_):  # type: ignore[override]
        z, g, a, weight = ctx.saved_tensors
        order, rest = ctx.order, (ctx.units, ctx.options)

        def outer(left: Tensor, right: Tensor | None, n: int) -> Tensor:
            return pair_outer(z, left, right, weight, n, *rest)

        change = torch.zeros_like(weight)
        if dz is not None:
            change = change + outer(g, dz if a is None else a * dz, order + 1)
            change = change - outer(g * dz, a, order + 1)
        if dg is not None:
            change = change + outer(dg, a, order)
        if da is not None:
            change = change + outer(g, da, order)
        return change

    @staticmethod
    def vmap(info, in_dims, z, g, a, weight, order, units, options):  # type: ignore[override]
        # the sum runs over rows, so batches cannot be folded into them
        results = [
            pair_outer(*one_of_batch((z, g, a, weight), in_dims, b), order, units, options)
            for b in range(info.batch_size)
        ]
        return torch.stack(results), 0
