"""What can be asked of tensors here: whether their numbers can be read, whether doubles exist."""

import torch
from torch import Tensor
from torch._C import (
    _are_functorch_transforms_active,
    _get_dispatch_mode,
    _len_torch_dispatch_stack,
    _TorchDispatchModeKey,
)


def is_plain() -> bool:
    """Whether tensors are just tensors here: no torch.compile, no torch.func, no fake tensors and
    no tracer at work. (Other dispatch modes only watch.)"""
    return not (
        torch.compiler.is_compiling()
        or _are_functorch_transforms_active()
        or (_len_torch_dispatch_stack() and _is_traced())
    )


def _is_traced() -> bool:
    kinds = _TorchDispatchModeKey.FAKE, _TorchDispatchModeKey.PROXY
    return any(_get_dispatch_mode(kind) is not None for kind in kinds)


def has_doubles(rows: Tensor) -> bool:
    """Whether there is float64 where the rows are."""
    return rows.device.type != "mps"
