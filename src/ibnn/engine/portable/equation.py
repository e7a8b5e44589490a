"""The equation z + c B(z) = y of some rows, and what is known of B at one z."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Field(Protocol):
    """What is known at one z: B(z), and how to solve with its Jacobian."""

    @property
    def bias(self) -> Tensor: ...

    def solve(self, g: Tensor, strength: Tensor, tolerance: Tensor | float) -> Tensor:
        """v with J v = g."""
        ...


@dataclass
class Rows:
    """The equation of the rows still at work; z is sought between `low` and `high`, to `goal`."""

    y: Tensor
    strength: Tensor
    goal: Tensor
    low: Tensor
    high: Tensor

    def take(self, rows: Tensor) -> "Rows":
        return Rows(*(t.index_select(0, rows) for t in vars(self).values()))

    def inside(self, z: Tensor) -> Tensor:
        return z.clamp(self.low, self.high)

    def residual(self, z: Tensor, field: Field) -> Tensor:
        return (z - self.y).addcmul_(self.strength, field.bias)

    def measure(self, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Per row: the largest residual, the largest as a multiple of what is allowed, the mean."""
        size = residual.abs()
        worst = size.amax(1)
        # nothing is asked below the rounding of the equation's own terms
        floor = (self.y.abs() + self.strength.abs()).mul_(4 * torch.finfo(size.dtype).eps)
        multiple = size.div_(torch.maximum(floor, self.goal, out=floor))
        return worst, multiple.amax(1), multiple.square_().mean(1).sqrt_()
