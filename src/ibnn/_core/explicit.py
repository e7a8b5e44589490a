"""One explicit step, z = y - lam B(y), as one node of the graph: what makes `Lite` cheap.

Written out as torch ops the same takes seven passes over the units on the way back, which is as
long as the sums themselves.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from ibnn._core.options import SolveOptions
from ibnn._core.pair_sums import bias_change, pair_sum
from ibnn._core.rows import Rows
from ibnn._core.transforms import is_plain


def explicit_step(
    y: Tensor, lam: Tensor, slope: Tensor, weight: Tensor | None, rows: Rows, options: SolveOptions
) -> Tensor:
    """z = y - lam B(y); lam and slope have been checked by `rows`."""
    single = lam.numel() == 1 == slope.numel() and lam.device == slope.device == y.device
    plain = is_plain() and forward_ad._current_level < 0
    if single and plain and weight is None and not slope.requires_grad:
        return _OneNode.plainly(y, lam, slope, rows, options)[0]
    flat, lam, slope = rows.flatten(y), rows.spread(lam), rows.spread(slope)
    bias = pair_sum(flat * slope.unsqueeze(-1), None, weight, 0, rows.units, options)
    return rows.restore(torch.addcmul(flat, lam.unsqueeze(-1), bias, value=-1))


class _OneNode(Function):
    """The step with uniform weights, one lam and a slope that is not learnt. Gradients are made of
    its second output, slope * y, so that y may be changed in place."""

    @staticmethod
    def forward(ctx, y, lam, slope, rows, options):  # type: ignore[override]
        flat = rows.flatten(y)
        scaled = flat * rows.values(slope)
        bias = pair_sum(scaled, None, None, 0, rows.units, options)
        ctx.save_for_backward(lam, slope, scaled, bias)
        ctx.rows, ctx.options = rows, options
        ctx.set_materialize_grads(False)
        return rows.owned(torch.addcmul(flat, rows.values(lam), bias, value=-1)), scaled

    @staticmethod
    def backward(ctx, g, g_scaled):  # type: ignore[override]
        lam, slope, scaled, bias = ctx.saved_tensors
        rows, rest = ctx.rows, (ctx.rows.units, ctx.options)
        p = rows.values(slope)
        grad_lam = None
        grad = None if g_scaled is None else g_scaled * p
        if g is not None:
            g = rows.flatten(g)
            if torch.is_grad_enabled():
                bias = pair_sum(scaled, None, None, 0, *rest)
            if ctx.needs_input_grad[1]:
                grad_lam = -rows.gather((g * bias).sum(-1), lam)
            change = bias_change(scaled, g, *rest)
            through = torch.addcmul(g, rows.values(lam) * p, change, value=-1)
            grad = through if grad is None else grad + through
        return None if grad is None else rows.restore(grad), grad_lam, None, None, None

    # `apply` looks for torch.func at work, which `explicit_step` has done
    plainly: Any = None


_OneNode.plainly = super(Function, _OneNode).apply  # type: ignore[attr-defined]
