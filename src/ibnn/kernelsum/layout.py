"""Which grid a row gets: decided by that row alone, so that it never depends on its batch."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# beyond the units: quadrature weights on the nodes fall off by 0.27 (order 4) per node
MARGIN = 6
# the kernel of arctan holds frequencies this much higher than the others
FINER = {"tanh": 1.0, "erf": 1.0, "arctan": 0.5}


@dataclass(frozen=True)
class Layout:
    """`cells` cells of width `spacing` for the units, and a margin of nodes on both sides."""

    sigma: str
    spacing: float
    cells: int
    order: int

    @property
    def nodes(self) -> int:
        return self.cells + self.order + 2 * MARGIN

    def origin(self, middle: Tensor) -> Tensor:
        return middle - self.spacing * (self.nodes - 1) / 2


def spans(y: Tensor, strength: Tensor) -> Tensor:
    """The length within which z of each row is known to stay; not finite where the row is not.

    Both ends move by c at most, and z(y) is no steeper than 1/(1 - c).
    """
    width = y.amax(1) - y.amin(1)
    c = strength.clamp(min=0)
    steepest = torch.where(c < 1, width * c / (1 - c).clamp(min=1e-3), c)
    return width + 2 * torch.minimum(c, steepest)


def levels(span: Tensor) -> Tensor:
    """Half octaves of the span, from 0 for all spans up to 1."""
    return (2 * span.clamp(1, 2.0**60).log2()).ceil_().long()


def solving(level: int, sigma: str) -> Layout:
    """A grid on which the solve is right to float32."""
    span = 2 ** (level / 2)
    if span <= 8:
        order, spacing = 4, min(1 / 8, 2.0 ** math.ceil(level / 2) / 32)
    else:
        order, spacing = 6, 1 / 4
    return _layout(sigma, span, spacing, order)


def summing(level: int, sigma: str, dtype: torch.dtype) -> Layout:
    """A grid on which sums of s_0 ... s_3 are right to the precision of `dtype`."""
    order, spacing = (6, 1 / 8) if dtype == torch.float32 else (12, 1 / 10)
    return _layout(sigma, 2 ** (level / 2), spacing, order)


def _layout(sigma: str, span: float, spacing: float, order: int) -> Layout:
    spacing *= FINER[sigma]
    return Layout(sigma, spacing, math.ceil(span / spacing), order)
