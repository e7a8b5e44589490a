"""One explicit step, z = y - lam B(y), as one node of the graph: what makes `Lite` cheap.

Written out as torch ops the same takes seven passes over the units on the way back, which is as
long as the sums themselves; an engine that has the step takes one each way.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from ibnn._core.custom_op import needs_dispatch
from ibnn._core.fallback import engine_for_sums
from ibnn._core.options import SolveOptions
from ibnn._core.pair_sums import bias_change, pair_sum
from ibnn._core.rows import Rows
from ibnn._tensors import is_plain


def explicit_step(
    y: Tensor, lam: Tensor, slope: Tensor, weight: Tensor | None, rows: Rows, options: SolveOptions
) -> Tensor:
    """z = y - lam B(y); lam and slope have been checked by `rows`."""
    single = lam.numel() == 1 == slope.numel() and lam.device == slope.device == y.device
    plain = is_plain() and forward_ad._current_level < 0
    if single and plain and weight is None and not slope.requires_grad:
        if torch.is_grad_enabled() and (y.requires_grad or lam.requires_grad):
            return _OneNode.plainly(y, lam, slope, rows, options)[0]
        with torch.no_grad():
            return rows.restore(_step(y, lam, slope, rows, options, kept=False)[0])
    flat, lam, slope = rows.flatten(y), rows.spread(lam), rows.spread(slope)
    bias = pair_sum(flat * slope.unsqueeze(-1), None, weight, 0, rows.units, options)
    return rows.restore(torch.addcmul(flat, lam.unsqueeze(-1), bias, value=-1))


class _OneNode(Function):
    """The step with uniform weights, one lam and a slope that is not learnt. Gradients are made of
    its second output, slope * y, so that y may be changed in place."""

    @staticmethod
    def forward(ctx, y, lam, slope, rows, options):  # type: ignore[override]
        z, scaled, bias = _step(y, lam, slope, rows, options, kept=True)
        ctx.save_for_backward(lam, slope, scaled, bias)
        ctx.rows, ctx.options = rows, options
        ctx.set_materialize_grads(False)
        return rows.owned(z), scaled

    @staticmethod
    def backward(ctx, g, g_scaled):  # type: ignore[override]
        lam, slope, scaled, bias = ctx.saved_tensors
        rows, options = ctx.rows, ctx.options
        p = rows.values(slope)
        grad_lam = None
        grad = None if g_scaled is None else g_scaled * p
        if g is not None:
            g, strength = rows.flatten(g), rows.values(lam) * p
            if bias is None and not needs_dispatch(scaled, g):
                engine, case = engine_for_sums(scaled, 1, rows.units, options)
                through, dot = engine.explicit_gradient(case, scaled, g, strength.item())
            else:
                if bias is None or torch.is_grad_enabled():
                    bias = pair_sum(scaled, None, None, 0, rows.units, options)
                change = bias_change(scaled, g, rows.units, options)
                through = torch.addcmul(g, strength, change, value=-1)
                dot = (g * bias).sum(-1) if ctx.needs_input_grad[1] else None
            grad_lam = -rows.gather(dot, lam) if ctx.needs_input_grad[1] else None
            grad = through if grad is None else grad + through
        return None if grad is None else rows.restore(grad), grad_lam, None, None, None

    # `apply` looks for torch.func at work, which `explicit_step` has done
    plainly: Any = None


_OneNode.plainly = super(Function, _OneNode).apply  # type: ignore[attr-defined]


def _step(
    y: Tensor, lam: Tensor, slope: Tensor, rows: Rows, options: SolveOptions, kept: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """z, slope * y where it is `kept`, and B(y) unless an engine has made the whole step."""
    flat = rows.flatten(y)
    if flat.numel() and not needs_dispatch(flat, lam, slope):
        engine, case = engine_for_sums(flat, 1, rows.units, options)
        # only an engine of the host takes steps: elsewhere to read a number is to wait for it
        numbers = (lam.item(), slope.item()) if engine.takes_steps else (math.nan, math.nan)
        if math.isfinite(numbers[0]) and 0 < numbers[1] < math.inf:
            return *engine.explicit_step(case, flat, *numbers, kept), None
    scaled = flat * rows.values(slope)
    bias = pair_sum(scaled, None, None, 0, rows.units, options)
    return torch.addcmul(flat, rows.values(lam), bias, value=-1), scaled, bias
