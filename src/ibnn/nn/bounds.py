"""Bounds a learnt value can come back from.

A clamp stops the gradient outside its range, so a value that left it stays out for ever. Here the
gradient passes outside too, but only where it leads back in.
"""

import torch
from torch import Tensor
from torch.autograd import Function


def keep_below(value: Tensor, bound: Tensor) -> Tensor:
    """min(value, bound).

    >>> lam = torch.tensor(0.3, requires_grad=True)
    >>> keep_below(lam, torch.tensor(0.1))
    tensor(0.1000, grad_fn=...)
    """
    return _KeepBelow.apply(*torch.broadcast_tensors(value, bound.to(value)))


def keep_above(value: Tensor, bound: float) -> Tensor:
    """max(value, bound)."""
    return -_KeepBelow.apply(-value, torch.full_like(value, -bound))


class _KeepBelow(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(value, bound):  # type: ignore[override]
        return torch.minimum(value, bound)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        value, bound = inputs
        ctx.save_for_backward(value > bound)

    @staticmethod
    def backward(ctx, g):  # type: ignore[override]
        (outside,) = ctx.saved_tensors
        # gradient descent moves against g: g > 0 leads a value that is too large back
        return torch.where(outside & (g < 0), 0, g), torch.where(outside, g, 0)
