"""What can be asked of tensors here: whether their numbers can be read, whether doubles exist."""

import torch
from torch import Tensor


def is_plain() -> bool:
    """Whether tensors are just tensors here: no torch.compile, no torch.func at work."""
    return not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()


def has_doubles(rows: Tensor) -> bool:
    """Whether there is float64 where the rows are."""
    return rows.device.type != "mps"
