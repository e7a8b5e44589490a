"""Rows of units: how a tensor of any shape becomes the (rows, units) matrix solvers work on."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ibnn._checks import is_number, shown
from ibnn._tensors import is_plain
from ibnn.coupling import Coupling


def rows_of(y: Tensor, coupling: Coupling) -> "Rows":
    """How y splits by this coupling; both are checked."""
    if not isinstance(y, Tensor):
        raise TypeError(f"y must be a tensor, got {type(y).__name__}")
    if not y.is_floating_point():
        raise TypeError(f"y must be a real floating-point tensor, got {y.dtype}")
    if y.is_nested:
        raise TypeError(
            "y must not be a nested tensor: solve its values and nest them again, "
            "torch.nested.nested_tensor_from_jagged(layer(y.values()), y.offsets())"
        )
    if y.layout is not torch.strided:
        raise TypeError(f"y must be a dense tensor, got one of layout {y.layout}")
    rows = Rows(y.shape, coupling.dims, y.dtype, y.device, memory_format_of(y))
    coupling.check_units(rows.units)
    return rows


def check_like(name: str, value: Any, y: Tensor) -> None:
    """Refuses what cannot stand for z of this y."""
    shape = tuple(y.shape)
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor of y's shape {shape}, got {type(value).__name__}")
    if value.shape != y.shape:
        raise ValueError(f"{name} must have y's shape {shape}, got {tuple(value.shape)}")
    if value.is_complex():
        raise TypeError(f"{name} must be real, as y is, got {value.dtype}")


class Rows:
    """The split of y's dims into units (named by the coupling) and independent rows."""

    def __init__(
        self,
        shape: Sequence[int],
        dims: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        memory_format: torch.memory_format | None,
    ) -> None:
        count = len(shape)
        unit_dims = []
        for dim in dims:
            if not -count <= dim < count:
                raise ValueError(
                    f"coupling dims={dims} are out of range for y of shape {tuple(shape)}"
                )
            unit_dims.append(dim % count)
        if len(set(unit_dims)) != len(unit_dims):
            raise ValueError(f"coupling dims={dims} name a dim of y twice")
        row_dims = [d for d in range(count) if d not in unit_dims]
        self.order = (*row_dims, *unit_dims)
        self.in_order = self.order == tuple(range(count))
        self.shape = tuple(shape[d] for d in row_dims)
        self.units = tuple(shape[d] for d in unit_dims)
        self.count, self.size = math.prod(self.shape), math.prod(self.units)
        # a value per channel needs a dim that is a channel: the one right before trailing units
        self.has_channels = bool(row_dims) and self.in_order
        # half precision is solved in float32
        self.dtype = torch.float64 if dtype == torch.float64 else torch.float32
        self._given = dtype
        self._device = device
        # that of y, so that what follows finds the layout its parent layer would have given it
        self._memory_format = memory_format
        # whether y is made of its rows, one after the other, as they are solved
        self.are_plain = self.in_order and memory_format is None and dtype is self.dtype

    def flatten(self, x: Tensor) -> Tensor:
        """The rows of x, which has y's shape."""
        if self.in_order and x.ndim == 2 and len(self.units) == 1:
            return _cast(x, self.dtype)
        ordered = x if self.in_order else x.permute(self.order)
        return _cast(ordered.reshape(self.count, self.size), self.dtype)

    def restore(self, flat: Tensor) -> Tensor:
        """Back to the shape, dtype and memory format of y."""
        shaped = flat
        if len(self.shape) != 1 or len(self.units) != 1:
            shaped = flat.reshape(*self.shape, *self.units)
        if not self.in_order:
            shaped = shaped.permute([self.order.index(d) for d in range(len(self.order))])
        elif self._memory_format is None:
            return _cast(shaped, self._given)
        shaped, format = _cast(shaped, self._given), self._memory_format
        if format is None or format is torch.contiguous_format:
            return shaped.contiguous()
        if is_plain():
            return shaped.contiguous(memory_format=format)
        return shaped.movedim(1, -1).contiguous().movedim(-1, 1)  # the same, as vmap can have it

    def owned(self, flat: Tensor) -> Tensor:
        """As `restore`, but no view, which torch lets nobody change in place if it comes from a
        function of autograd; `flat` is used up."""
        shaped = self.restore(flat)
        return flat.as_strided_(shaped.shape, shaped.stride()) if shaped._is_view() else shaped

    def checked(self, name: str, value: "float | Tensor") -> Tensor:
        """lam or slope as a tensor: a scalar, or a value per channel."""
        if not isinstance(value, Tensor):
            if not is_number(value):
                raise TypeError(f"{name} must be a number or a tensor, got {type(value).__name__}")
            most = torch.finfo(self.dtype).max
            if not -most <= value <= most or (name == "slope" and value <= 0):
                wanted = "positive and finite" if name == "slope" else "finite"
                raise ValueError(f"{name} must be {wanted} in {self.dtype}, got {shown(value)}")
            return torch.full((), float(value), dtype=self.dtype, device=self._device)
        if not value.is_floating_point():
            raise TypeError(
                f"{name} must be a number or a floating-point tensor, got {value.dtype}"
            )
        if value.numel() == 1 and value.ndim <= 1:
            return value
        expected = "a scalar (one value per channel needs y = (..., channel, units))"
        if self.has_channels:
            expected = f"a scalar or {self.shape[-1]} values, one per channel"
        if not self.has_channels or value.shape != self.shape[-1:]:
            raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {expected}")
        return value

    def values(self, value: Tensor) -> Tensor:
        """A checked value: one for each row, or a single one for all of them."""
        if value.device != self._device or value.dtype is not self.dtype:
            value = value.to(self._device, self.dtype)
        return value if value.numel() == 1 else value.expand(self.shape).reshape(-1)

    def spread(self, value: Tensor) -> Tensor:
        """A checked value, as one for each row."""
        return self.values(value).expand(self.count)

    def gather(self, of_rows: Tensor, value: Tensor) -> Tensor:
        """The gradient of a value from that of each row: what `spread` takes back."""
        if value.numel() == 1:
            total = of_rows.sum() if not value.ndim else of_rows.sum(0, keepdim=True)
        else:
            total = of_rows.reshape(-1, value.numel()).sum(0)
        if total.dtype is value.dtype and total.device == value.device:
            return total
        return total.to(value.device, value.dtype)

    def per_row(self, name: str, value: "float | Tensor") -> Tensor:
        return self.spread(self.checked(name, value))


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype is dtype else x.to(dtype)


def memory_format_of(y: Tensor) -> torch.memory_format | None:
    """None is a y that is contiguous."""
    if y.is_contiguous():
        return None
    # by the stride of the channels: is_contiguous(channels_last) cannot be asked inside vmap
    if y.ndim in (4, 5) and y.stride(1) == 1 and y.shape[1] > 1:
        return torch.channels_last if y.ndim == 4 else torch.channels_last_3d
    return torch.contiguous_format


def check_slope(slope: Tensor) -> None:
    """Refuses a slope that is not positive."""
    if bool((slope <= 0).any()):
        raise ValueError(f"slope must be positive, got {float(slope.min())}")
