"""How gradients come back: implicit differentiation, shared by every solver, of any order.

At the solution J dz = dy - B dlam - lam dB, with J = I + lam DB symmetric. So one linear solve
J v = g carries the gradient g of z, and every other gradient is a sum against v. The solve, the
linear solve and the sums P_n are closed under differentiation, hence gradients of gradients.
Everything here works in units where sigma has slope 1, except `ImplicitSolve` itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from ibnn import coupling
from ibnn._core import method, ops


def _row_sum(x: Tensor) -> Tensor:
    return x.sum(-1)


def _fold(
    batch: int, tensors: Sequence[Tensor | None], dims: Sequence[int | None]
) -> list[Tensor | None]:
    """Puts a vmapped dim into the rows: rows are independent, so a batch is more of them."""
    folded = []
    for tensor, dim in zip(tensors, dims, strict=True):
        if tensor is None:
            folded.append(None)
            continue
        moved = tensor.expand(batch, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        folded.append(moved.reshape(-1, *moved.shape[2:]))
    return folded


def _vmap_rows(
    apply: Callable[..., Any],
    batch: int,
    rows: Sequence[Tensor | None],
    row_dims: Sequence[int | None],
    weight: Tensor | None,
    weight_dim: int | None,
) -> tuple[Any, Any]:
    """`apply(rows, weight)` under vmap; only a batch of weights needs a loop."""
    if weight is not None and weight_dim is not None:
        results = []
        for b in range(batch):
            one = [
                t if t is None or d is None else t.select(d, b)
                for t, d in zip(rows, row_dims, strict=True)
            ]
            results.append(apply(one, weight.select(weight_dim, b)))
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        return tuple(torch.stack(r) for r in zip(*results, strict=True)), (0,) * len(results[0])
    result = apply(_fold(batch, rows, row_dims), weight)
    if isinstance(result, Tensor):
        return result.reshape(batch, -1, *result.shape[1:]), 0
    return tuple(r.reshape(batch, -1, *r.shape[1:]) for r in result), (0,) * len(result)


class PairSum(Function):
    """P_n(z, a) = sum_k w_ik a_k s_n(z_k - z_i)."""

    @staticmethod
    def forward(z, a, weight, order, units, how):  # type: ignore[override]
        return ops.pair_sum(z, a, weight, order, units, how)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        z, a, weight, ctx.order, ctx.units, ctx.how = inputs
        ctx.save_for_backward(z, a, weight)

    @staticmethod
    def backward(ctx, g):  # type: ignore[override]
        z, a, weight = ctx.saved_tensors
        order, units, how = ctx.order, ctx.units, ctx.how
        kernel = coupling.kernel(method.kernel_of(how))
        back = None if weight is None else kernel.transpose(weight)
        grad_z = grad_a = grad_weight = None
        if ctx.needs_input_grad[0]:
            received = PairSum.apply(z, g, back, order + 1, units, how) * (-1) ** order
            grad_z = (received if a is None else received * a) - g * PairSum.apply(
                z, a, weight, order + 1, units, how
            )
        if a is not None and ctx.needs_input_grad[1]:
            grad_a = PairSum.apply(z, g, back, order, units, how) * (-1) ** (order + 1)
        if weight is not None and ctx.needs_input_grad[2]:
            grad_weight = PairOuter.apply(z, g, a, weight, order, units, how)
        return grad_z, grad_a, grad_weight, None, None, None

    @staticmethod
    def vmap(info, in_dims, z, a, weight, order, units, how):  # type: ignore[override]
        return _vmap_rows(
            lambda rows, w: PairSum.apply(*rows, w, order, units, how),
            info.batch_size,
            (z, a),
            in_dims[:2],
            weight,
            in_dims[2],
        )


class PairOuter(Function):
    """The derivative of sum(g * P_n(z, a)) by the weights; `weight` only lends its shape."""

    @staticmethod
    def forward(z, g, a, weight, order, units, how):  # type: ignore[override]
        return ops.pair_outer(z, g, a, weight, order, units, how)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        z, g, a, _, ctx.order, ctx.units, ctx.how = inputs
        ctx.save_for_backward(z, g, a)

    @staticmethod
    def backward(ctx, cotangent):  # type: ignore[override]
        z, g, a = ctx.saved_tensors
        order, units, how = ctx.order, ctx.units, ctx.how
        back = coupling.kernel(method.kernel_of(how)).transpose(cotangent)
        grad_z = grad_g = grad_a = None
        if ctx.needs_input_grad[0]:
            received = PairSum.apply(z, g, back, order + 1, units, how) * (-1) ** order
            grad_z = (received if a is None else received * a) - g * PairSum.apply(
                z, a, cotangent, order + 1, units, how
            )
        if ctx.needs_input_grad[1]:
            grad_g = PairSum.apply(z, a, cotangent, order, units, how)
        if a is not None and ctx.needs_input_grad[2]:
            grad_a = PairSum.apply(z, g, back, order, units, how) * (-1) ** (order + 1)
        return grad_z, grad_g, grad_a, None, None, None, None

    @staticmethod
    def vmap(info, in_dims, z, g, a, weight, order, units, how):  # type: ignore[override]
        # the sum runs over rows, so batches cannot be folded into them
        results = []
        for b in range(info.batch_size):
            one = [
                t if t is None or d is None else t.select(d, b)
                for t, d in zip((z, g, a, weight), in_dims[:4], strict=True)
            ]
            results.append(PairOuter.apply(*one, order, units, how))
        return torch.stack(results), 0


class LinearSolve(Function):
    """v = J(z)^-1 g and v . B(z): J v = v + c (P_1(z, v) - v P_1(z, 1))."""

    @staticmethod
    def forward(z, g, strength, weight, units, how):  # type: ignore[override]
        return ops.solve_adjoint(z, g, strength, weight, units, how)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        z, _, strength, weight, ctx.units, ctx.how = inputs
        ctx.save_for_backward(z, strength, weight, output[0])

    @staticmethod
    def backward(ctx, grad_v, grad_dot):  # type: ignore[override]
        z, strength, weight, v = ctx.saved_tensors
        units, how = ctx.units, ctx.how
        c, share = strength.unsqueeze(-1), grad_dot.unsqueeze(-1)

        def total(a: Tensor | None, order: int) -> Tensor:
            return PairSum.apply(z, a, weight, order, units, how)

        bias_change = total(v, 1) - v * total(None, 1)
        # J q = the whole gradient of v: its own, and through v . B(z)
        q, _ = LinearSolve.apply(z, grad_v + share * total(None, 0), strength, weight, units, how)
        grad_z = grad_strength = grad_weight = None
        if ctx.needs_input_grad[0]:
            # of -q . (J v): a third-order sum over pairs
            twist = q * v * total(None, 2) + total(q * v, 2) - q * total(v, 2) - v * total(q, 2)
            grad_z = share * bias_change - c * twist
        if ctx.needs_input_grad[2]:
            grad_strength = -_row_sum(q * bias_change)
        if weight is not None and ctx.needs_input_grad[3]:
            grad_weight = (
                PairOuter.apply(z, share * v, None, weight, 0, units, how)
                - PairOuter.apply(z, c * q, v, weight, 1, units, how)
                + PairOuter.apply(z, c * q * v, None, weight, 1, units, how)
            )
        return grad_z, q, grad_strength, grad_weight, None, None

    @staticmethod
    def vmap(info, in_dims, z, g, strength, weight, units, how):  # type: ignore[override]
        return _vmap_rows(
            lambda rows, w: LinearSolve.apply(*rows, w, units, how),
            info.batch_size,
            (z, g, strength),
            in_dims[:3],
            weight,
            in_dims[3],
        )


class ImplicitSolve(Function):
    """z of z + lam B(z) = y, with converged, residual and steps of each row."""

    @staticmethod
    def forward(y, lam, slope, weight, start, units, how):  # type: ignore[override]
        return ops.solve(y, lam, slope, weight, start, units, how)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        _, lam, slope, weight, _, ctx.units, ctx.how = inputs
        ctx.save_for_backward(lam, slope, weight, output[0])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx, g, *_):  # type: ignore[override]
        lam, slope, weight, value = ctx.saved_tensors
        units, how = ctx.units, ctx.how
        z = value * slope.unsqueeze(-1)
        if method.adjoint_of(how) == "jfb":
            # Jacobian-free: J taken for the identity
            v = g
            dot = _row_sum(v * PairSum.apply(z, None, weight, 0, units, how))
        else:
            v, dot = LinearSolve.apply(z, g, lam * slope, weight, units, how)
        grad_slope = grad_weight = None
        if ctx.needs_input_grad[2]:
            # dB/dslope = DB z / slope; DB ignores a shift of z, which costs digits
            centred = z - z.detach().median(-1, keepdim=True).values if z.numel() else z
            change = PairSum.apply(z, centred, weight, 1, units, how) - centred * PairSum.apply(
                z, None, weight, 1, units, how
            )
            grad_slope = -lam / slope * _row_sum(v * change)
        if weight is not None and ctx.needs_input_grad[3]:
            grad_weight = PairOuter.apply(z, -lam.unsqueeze(-1) * v, None, weight, 0, units, how)
        return v, -dot, grad_slope, grad_weight, None, None, None

    @staticmethod
    def vmap(info, in_dims, y, lam, slope, weight, start, units, how):  # type: ignore[override]
        return _vmap_rows(
            lambda rows, w: ImplicitSolve.apply(*rows[:3], w, rows[3], units, how),
            info.batch_size,
            (y, lam, slope, start),
            (*in_dims[:3], in_dims[4]),
            weight,
            in_dims[3],
        )
