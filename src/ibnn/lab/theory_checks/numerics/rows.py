"""Tensors of any shape as rows of units: what a coupling joins, and what is independent."""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor

import ibnn


class CoupledRows:
    """The rows a coupling makes of tensors of one shape, and the coupling of a row by itself."""

    def __init__(self, shape: Sequence[int], coupling: ibnn.Coupling) -> None:
        self._dims = tuple(dim % len(shape) for dim in coupling.dims)
        others = [dim for dim in range(len(shape)) if dim not in self._dims]
        self.shape = tuple(shape[dim] for dim in others)
        self.units = tuple(shape[dim] for dim in self._dims)
        self.coupling = copy.copy(coupling)
        self.coupling.dims = tuple(range(-len(self._dims), 0))

    @property
    def last(self) -> tuple[int, ...]:
        """The dims of the units once they stand last."""
        return self.coupling.dims

    def flatten(self, x: Tensor) -> Tensor:
        """As (rows, units)."""
        return x.movedim(self._dims, self.last).reshape(math.prod(self.shape), -1)

    def restore(self, flat: Tensor) -> Tensor:
        return flat.reshape(*self.shape, *self.units).movedim(self.last, self._dims)

    def per_row(self, value: float | Tensor, like: Tensor) -> Tensor:
        """A number, or one for each channel, as one for each row."""
        given = torch.as_tensor(value, dtype=like.dtype, device=like.device).detach()
        given = given.reshape(()) if given.numel() == 1 else given
        return given.expand(self.shape).reshape(-1)
