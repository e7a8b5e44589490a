"""Rows of units: how a tensor of any shape becomes the (rows, units) matrix solvers work on."""

import math
from numbers import Real

import torch
from torch import Tensor

from ibnn.coupling import Coupling


class Rows:
    """The split of `y`'s dims into units (named by the coupling) and independent rows."""

    def __init__(self, y: Tensor, coupling: Coupling) -> None:
        if not isinstance(y, Tensor):
            raise TypeError(f"y must be a tensor, got {type(y).__name__}")
        if not y.is_floating_point():
            raise TypeError(f"y must be a real floating-point tensor, got {y.dtype}")
        unit_dims = []
        for dim in coupling.dims:
            if not -y.ndim <= dim < y.ndim:
                raise ValueError(
                    f"coupling dims={coupling.dims} are out of range for y of shape "
                    f"{tuple(y.shape)}"
                )
            unit_dims.append(dim % y.ndim)
        if len(set(unit_dims)) != len(unit_dims):
            raise ValueError(f"coupling dims={coupling.dims} name a dim of y twice")
        row_dims = [d for d in range(y.ndim) if d not in unit_dims]
        self.order = (*row_dims, *unit_dims)
        self.in_order = self.order == tuple(range(y.ndim))
        self.shape = tuple(y.shape[d] for d in row_dims)
        self.units = tuple(y.shape[d] for d in unit_dims)
        # a value per channel needs a dim that is a channel: the one right before trailing units
        self.has_channels = bool(row_dims) and self.in_order
        coupling.check_units(self.units)
        # half precision is solved in float32
        self.dtype = torch.float64 if y.dtype == torch.float64 else torch.float32
        self._original = y

    def flatten(self, x: Tensor) -> Tensor:
        rows, units = math.prod(self.shape), math.prod(self.units)
        ordered = x if self.in_order else x.permute(self.order)
        return ordered.reshape(rows, units).to(self.dtype)

    def restore(self, flat: Tensor) -> Tensor:
        """Back to the shape, dtype and memory format of y."""
        y = self._original
        shaped = flat.reshape(*self.shape, *self.units)
        if not self.in_order:
            shaped = shaped.permute([self.order.index(d) for d in range(len(self.order))])
        elif y.is_contiguous():
            return shaped.to(y.dtype)
        return shaped.to(y.dtype).contiguous(memory_format=_memory_format(y))

    def per_row(self, name: str, value: "float | Tensor") -> Tensor:
        """A scalar or a value per channel, as one value for each row."""
        y = self._original
        if isinstance(value, Tensor):
            if not value.is_floating_point():
                raise TypeError(f"{name} must be a number or a floating-point tensor")
        elif isinstance(value, Real) and not isinstance(value, bool):
            if not -math.inf < value < math.inf or (name == "slope" and value <= 0):
                wanted = "positive and finite" if name == "slope" else "finite"
                raise ValueError(f"{name} must be {wanted}, got {value!r}")
            return y.new_full((math.prod(self.shape),), float(value), dtype=self.dtype)
        else:
            raise TypeError(f"{name} must be a number or a tensor, got {type(value).__name__}")
        if value.numel() != 1 or value.ndim > 1:
            expected = "a scalar (one value per channel needs y = (..., channel, units))"
            if self.has_channels:
                expected = f"a scalar or {self.shape[-1]} values, one per channel"
            if not self.has_channels or value.shape != self.shape[-1:]:
                raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {expected}")
        else:
            value = value.reshape(())
        return value.to(self.dtype).to(y.device).expand(self.shape).reshape(-1)


def _memory_format(y: Tensor) -> torch.memory_format:
    """That of y, so that what follows finds the layout its parent layer would have given it."""
    # by the stride of the channels: is_contiguous(channels_last) cannot be asked inside vmap
    if y.ndim in (4, 5) and y.stride(1) == 1 and y.shape[1] > 1:
        return torch.channels_last if y.ndim == 4 else torch.channels_last_3d
    return torch.contiguous_format
