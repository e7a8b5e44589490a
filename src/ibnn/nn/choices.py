"""The arguments of a layer, checked and resolved: coupling, lam and slope."""

from typing import Any

import torch
from torch import Tensor

from ibnn._checks import shown
from ibnn.coupling import Coupling, Uniform, check_is_coupling


def resolve_coupling(coupling: str | Coupling | None, spatial_dims: int | None) -> Coupling:
    """The coupling meant; names are for convolutions, which know their spatial dims."""
    if isinstance(coupling, Coupling):
        return coupling if spatial_dims is None else coupling.for_layer(spatial_dims)
    if spatial_dims is None:
        if coupling is not None:
            check_is_coupling(coupling)
        return Uniform(-1)
    spatial = tuple(range(-spatial_dims, 0))
    named = {
        "space": spatial,
        "channels": (-spatial_dims - 1,),
        "layer": (-spatial_dims - 1, *spatial),
    }
    if coupling is None:
        coupling = "space"
    if not isinstance(coupling, str) or coupling not in named:
        raise ValueError(
            f"coupling={shown(coupling)} is not known; expected one of {list(named)} or a coupling"
        )
    return Uniform(named[coupling])


def number_or_channels(name: str, value: Any, channels: int | None, dtype: torch.dtype) -> Tensor:
    """A number, or one per channel, as a tensor on the CPU. One number in a list is a tensor of one
    dim, as sharded data parallelism (FSDP) needs every parameter to be."""
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be real and floating-point, got {dtype}")
    try:
        if isinstance(value, bool):
            raise TypeError
        tensor = torch.as_tensor(value, dtype=dtype, device="cpu").detach().clone()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{name} must be a number or one number per channel, got {shown(value)}"
        ) from None
    if not bool(tensor.isfinite().all()):
        raise ValueError(f"{name} must be finite, got {shown(value)}")
    if tensor.ndim == 0 or (
        tensor.ndim == 1 and (channels is None or len(tensor) in (1, channels))
    ):
        return tensor
    expected = "one number"
    if channels != 1:
        expected += " or one per channel" + (f" ({channels})" if channels else "")
    raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {expected}")


def short(value: Tensor) -> str:
    """A number or a range, for a repr."""
    value = value.detach()
    if value.is_meta:
        return "?"
    if value.numel() == 1:
        return f"{float(value):.4g}"
    return f"[{float(value.min()):.3g} .. {float(value.max()):.3g}]"
