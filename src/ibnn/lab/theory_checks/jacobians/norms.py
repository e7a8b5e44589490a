"""Norms of the Jacobian of a whole network, image by image, from products alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]  # a batch in, a batch out, each example on its own


@torch.no_grad()
def forward_product(function: Function, x: Tensor, dx: Tensor) -> Tensor:
    """J dx of each example."""
    _, _, forward = _products(function, x)
    return forward(dx)


@torch.no_grad()
def frobenius_norms(
    function: Function, x: Tensor, *, probes: int = 16, generator: torch.Generator
) -> Tensor:
    """|J|_F of each example: Hutchinson's E|J^T u|^2 over random signs u, or exactly, a product
    per output, where the outputs are no more than the probes."""
    outputs, back, _ = _products(function, x)
    size = outputs[0].numel()
    total = x.new_zeros(len(x))
    count = min(size, probes)
    for number in range(count):
        if size <= probes:
            u = torch.zeros(len(x), size)
            u[:, number] = 1
        else:
            u = torch.randint(0, 2, (len(x), size), generator=generator) * 2.0 - 1
        total += _norms(back(u.to(outputs).reshape(outputs.shape))).square()
    return (total if size <= probes else total / count).sqrt()


@dataclass(frozen=True)
class Spectral:
    """|J|_2 of each example, from below, and the direction in the input that reaches it."""

    norms: Tensor
    directions: Tensor
    change: float  # largest relative change of the last step


@torch.no_grad()
def spectral_norms(
    function: Function,
    x: Tensor,
    *,
    generator: torch.Generator,
    steps: int = 40,
    rtol: float = 1e-4,
) -> Spectral:
    """Power iteration on J^T J, every example at once, until none changes by more than `rtol`."""
    _, back, forward = _products(function, x)
    v = _unit(
        torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.dtype).to(x.device)
    )
    norms, change = x.new_zeros(len(x)), torch.inf
    for _ in range(steps):
        u = forward(v)
        before, norms = norms, _norms(u)
        change = float(((norms - before) / norms.clamp_min(1e-30)).abs().max())
        if change <= rtol:
            break
        v = _unit(back(u))
    return Spectral(norms, v, change)


def _products(function: Function, x: Tensor) -> tuple[Tensor, Function, Function]:
    """f(x), u -> J^T u and v -> J v.

    The product J^T u is linear in u, and its own derivative by u is J: two reverse passes, so that
    layers without a forward-mode rule can be in between.
    """
    made: Any = torch.func.vjp(function, x)
    outputs, back = made
    again: Any = torch.func.vjp(lambda u: back(u)[0], torch.zeros_like(outputs))
    return outputs, lambda u: back(u)[0], lambda v: again[1](v)[0]


def _norms(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1)


def _unit(x: Tensor) -> Tensor:
    size = _norms(x).clamp_min(1e-30).reshape(-1, *[1] * (x.ndim - 1))
    return x / size
