"""The balls images are moved in: distances, projections, steepest directions, random points.

Images are rows of any shape; everything here is one value or one image per row.
"""

from typing import Literal

import torch
from torch import Tensor

Norm = Literal["linf", "l2", "l0", "none"]

_TINY = 1e-12


def per_row(values: Tensor, like: Tensor) -> Tensor:
    """One value per image, shaped to broadcast over the images of `like`."""
    return values.reshape(-1, *[1] * (like.dim() - 1))


def distance(norm: Norm, difference: Tensor) -> Tensor:
    """The size of each row; l0 counts pixels (all channels of one position are one pixel)."""
    if norm == "linf":
        return difference.flatten(1).abs().amax(1)
    if norm == "l0":
        changed = difference != 0
        return (changed.any(1) if difference.dim() == 4 else changed).flatten(1).sum(1)
    return torch.linalg.vector_norm(difference.flatten(1), dim=1)


def project(norm: Norm, x: Tensor, images: Tensor, eps: float, box: bool = True) -> Tensor:
    """`images` moved into the ball of radius eps around `x` and, unless `box` is off, into [0, 1].

    In l_2 the radius comes first and the box after it, as every implementation does: cutting at
    the box only brings a point nearer to `x`, which lies inside. It is not the nearest point of
    the intersection.
    """
    change = images - x
    if norm == "linf":
        change = change.clamp_(-eps, eps)
    else:
        length = per_row(distance("l2", change), x)
        change = change * (eps / length.clamp_min(_TINY)).clamp_max(1)
    # The range comes last: x lies in it, so that going back into it only shortens the way.
    return (x + change).clamp_(0, 1) if box else x + change


def steepest(norm: Norm, gradient: Tensor) -> Tensor:
    """The direction of length 1 in which a linear function grows most; 0 where there is none."""
    if norm == "linf":
        return gradient.sign()
    # Divided by its largest entry first: the square of a gradient of 1e-25 is 0 in float32.
    largest = per_row(gradient.flatten(1).abs().amax(1), gradient)
    gradient = gradient / torch.where(largest > 0, largest, 1)
    return gradient / per_row(distance("l2", gradient), gradient).clamp_min(_TINY)


def uniform(like: Tensor, generator: torch.Generator, low: float = 0.0, high: float = 1.0):
    """Uniform numbers of the shape of `like`, drawn where the generator lives."""
    drawn = torch.rand(like.shape, generator=generator, device=generator.device, dtype=like.dtype)
    return (low + (high - low) * drawn).to(like.device)


def normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal numbers of the shape of `like`, drawn where the generator lives."""
    drawn = torch.randn(like.shape, generator=generator, device=generator.device, dtype=like.dtype)
    return drawn.to(like.device)


def random_point(norm: Norm, x: Tensor, eps: float, generator: torch.Generator) -> Tensor:
    """A point drawn uniformly from the ball around each image, then cut to [0, 1]."""
    if norm == "linf":
        return (x + uniform(x, generator, -eps, eps)).clamp_(0, 1)
    units = x[0].numel()
    radius = uniform(x.flatten(1)[:, :1], generator) ** (1 / units)
    return (x + eps * per_row(radius, x) * steepest("l2", normal(x, generator))).clamp_(0, 1)
