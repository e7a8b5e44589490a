"""Preconditioned conjugate gradients for J v = b, row by row: J is symmetric, and positive definite
below the threshold."""

from collections.abc import Callable

import torch
from torch import Tensor


def conjugate_gradients(
    matrix: Callable[[Tensor], Tensor],
    b: Tensor,
    diagonal: Tensor,
    rtol: float,
    max_steps: int,
) -> tuple[Tensor, Tensor]:
    """v with |J v - b| <= rtol |b|, as far as `max_steps` reach, and the products each row took.

    A row that meets a direction of non-positive curvature (above the threshold) stops there and
    keeps what it has, or its first direction: still a way down the energy.
    """
    tiny = torch.finfo(b.dtype).tiny
    # squares of numbers far from 1 would under- or overflow
    unit = b.abs().amax(-1, keepdim=True).clamp_min(tiny)
    b = b / unit
    scale = 1 / torch.where(diagonal > 0, diagonal, torch.ones_like(diagonal))
    size = b.norm(dim=-1, keepdim=True).clamp_min(tiny)
    x = torch.zeros_like(b)
    r = b
    y = scale * r
    direction = y
    rho = (r * y).sum(-1, keepdim=True)
    going = b.norm(dim=-1, keepdim=True) > 0
    products = torch.zeros(len(b), dtype=torch.int32, device=b.device)
    for step in range(max_steps):
        if not bool(going.any()):
            break
        products = products + going.squeeze(-1)
        image = matrix(direction)
        curvature = (direction * image).sum(-1, keepdim=True)
        convex = curvature > 0
        if step == 0:
            x = torch.where(going & ~convex, direction, x)
        going = going & convex
        alpha = torch.where(going, rho / torch.where(convex, curvature, 1), 0)
        x = x + alpha * direction
        r = r - alpha * image
        going = going & (r.norm(dim=-1, keepdim=True) > rtol * size)
        y = scale * r
        rho_next = (r * y).sum(-1, keepdim=True)
        beta = torch.where(going, rho_next / rho.clamp_min(tiny), 0)
        direction = torch.where(going, y + beta * direction, direction)
        rho = torch.where(going, rho_next, rho)
    return x * unit, products
