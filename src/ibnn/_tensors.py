"""What can be asked of tensors here: whether their numbers can be read, whether doubles exist."""

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active, _len_torch_dispatch_stack


def is_plain() -> bool:
    """Whether tensors are just tensors here: no torch.compile, torch.func or dispatch mode (fake
    tensors, a tracer) at work."""
    return not (
        torch.compiler.is_compiling()
        or _are_functorch_transforms_active()
        or _len_torch_dispatch_stack()
    )


def has_doubles(rows: Tensor) -> bool:
    """Whether there is float64 where the rows are."""
    return rows.device.type != "mps"
