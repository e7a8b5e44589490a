"""Bounds a learnt value can come back from, and those of lam.

A clamp stops the gradient outside its range, so a value that left it stays out for ever. Here the
gradient passes outside too, but only where it leads back in.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from ibnn._checks import shown
from ibnn._core import deferred_failures
from ibnn._core.solution import ThresholdWarning, warn_user
from ibnn._core.transforms import differentiable
from ibnn._tensors import is_plain
from ibnn.coupling import Coupling
from ibnn.sigma import Sigma
from ibnn.theory import threshold_of

Bounded = bool | tuple[float, float]

# a bounded lam acts as at most this fraction of the threshold of uniqueness: J^-1 is then at most
# 20, and its solve a few steps
FRACTION_OF_THRESHOLD = 0.95


@dataclass(frozen=True)
class Limits:
    """The limits of lam; None is no limit."""

    low: float | None = None
    high: Tensor | None = None
    single: float = -math.inf  # high as a number, where it is the only limit and can be read

    def keep(self, lam: Tensor) -> Tensor:
        """lam within the limits."""
        readable = (
            self.single > -math.inf
            and lam.numel() == 1
            and not deferred_failures.is_asynchronous(lam)
        )
        if readable and lam.item() <= self.single:
            return lam  # as nearly always
        if self.low is not None:
            lam = keep_above(lam, self.low)
        return lam if self.high is None else keep_below(lam, self.high)


def checked_bounded(bounded: Any) -> Bounded:
    """True, False or a pair of floats."""
    if isinstance(bounded, bool):
        return bounded
    try:
        low, high = (0.0, 0.0) if isinstance(bounded, str) else map(float, bounded)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not low < high:
        raise ValueError(f"bounded must be True, False or (low, high) of lam, got {shown(bounded)}")
    return low, high


def limits_of(bounded: Bounded, slope: Tensor, coupling: Coupling, sigma: Sigma) -> Limits:
    """What `bounded` means for a layer: below 0.95 of the threshold in any case but False."""
    if bounded is False:
        return Limits()
    high = _threshold(slope, coupling, sigma) * FRACTION_OF_THRESHOLD
    if bounded is True:
        return Limits(high=high)
    return Limits(bounded[0], high.clamp(max=bounded[1]))


def _threshold(slope: Tensor, coupling: Coupling, sigma: Sigma) -> Tensor:
    """Where the slope is, whatever torch's default device (to which `torch.as_tensor` moves)."""
    threshold = threshold_of(slope, coupling, sigma)
    assert isinstance(threshold, Tensor)
    return threshold


def check_lam(
    lam: Tensor,
    slope: Tensor,
    coupling: Coupling,
    sigma: Sigma,
    learnt: bool,
    bounded: Bounded,
) -> None:
    """Warns where the lam that is used is not the one given, or z may not be the only solution."""
    if bounded and learnt:
        limits = limits_of(bounded, slope, coupling, sigma)
        low, high = limits.low, limits.high
        if low is not None and high is not None and bool((high <= low).any()):
            raise ValueError(
                f"bounded={bounded} lies above {float(high.min()):.4g}, 0.95 of the threshold of "
                "uniqueness; choose a lower pair, or bounded=False"
            )
        acting = limits.keep(lam.detach())
        given, used = torch.broadcast_tensors(lam.detach(), acting)
        changed = given != used
        if bool(changed.any()):
            given, used = float(given[changed][0]), float(used[changed][0])
            warn_user(
                f"lam={given:.4g} is used as {used:.4g}: a learnt lam is kept within its bounds "
                "(bounded=False removes them)",
                ThresholdWarning,
            )
        return
    if isinstance(bounded, tuple) and not bool(((lam >= bounded[0]) & (lam <= bounded[1])).all()):
        raise ValueError(f"lam={lam.tolist()} is outside of bounded={bounded}")
    if sigma.certified:
        threshold = _threshold(slope, coupling, sigma).detach()
        if bool((lam.detach() > threshold).any()):
            warn_user(
                f"lam={float(lam.max()):.4g} is above the threshold "
                f"{float(threshold.min()):.4g}: z may not be the only solution",
                ThresholdWarning,
            )


def keep_below(value: Tensor, bound: Tensor) -> Tensor:
    """min(value, bound).

    >>> lam = torch.tensor(0.3, requires_grad=True)
    >>> keep_below(lam, torch.tensor(0.1))
    tensor(0.1000, grad_fn=...)
    """
    bound = bound.to(value)
    quickly = (
        not deferred_failures.is_asynchronous(value) and bound.ndim <= value.ndim and is_plain()
    )
    if quickly:  # which spares short rows a node of the graph
        single = value.numel() == 1 == bound.numel()
        if value.item() <= bound.item() if single else bool((value <= bound).all()):
            return value
    return _keep_below(*torch.broadcast_tensors(value, bound))


def keep_above(value: Tensor, bound: float) -> Tensor:
    """max(value, bound)."""
    return -_keep_below(-value, torch.full_like(value, -bound))


@differentiable
class _keep_below(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(value, bound):  # type: ignore[override]
        return torch.minimum(value, bound)

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[override]
        value, bound = inputs
        outside = value > bound
        ctx.dtype = value.dtype
        ctx.save_for_backward(outside)
        ctx.save_for_forward(outside)

    @staticmethod
    def backward(ctx, g):  # type: ignore[override]
        (outside,) = ctx.saved_tensors
        # gradient descent moves against g: g > 0 leads a value that is too large back
        of_bound = torch.where(outside, g, 0) if ctx.needs_input_grad[1] else None
        return g.masked_fill(outside & (g < 0), 0), of_bound

    @staticmethod
    def tangent(ctx, dvalue, dbound):  # type: ignore[override]
        (outside,) = ctx.saved_tensors
        dvalue = torch.zeros_like(outside, dtype=ctx.dtype) if dvalue is None else dvalue
        dbound = torch.zeros_like(dvalue) if dbound is None else dbound
        # torch.func.jvp gives a quotient of numbers in float32, as a bound is, one in float64
        return torch.where(outside, dbound.to(ctx.dtype), dvalue.to(ctx.dtype))
