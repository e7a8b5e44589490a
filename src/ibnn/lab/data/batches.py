"""Batches by index out of a dataset that is whole in memory: no workers, no copies kept."""

from collections.abc import Iterator

import torch
from torch import Tensor


def as_float(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Examples as a network is given them: uint8 becomes [0, 1], floats keep their values, and
    so do the numbers of characters (int64), which stay integers.

    >>> as_float(torch.tensor([0, 51, 255], dtype=torch.uint8), torch.float64)
    tensor([0.0000, 0.2000, 1.0000], dtype=torch.float64)
    """
    if x.dtype == torch.int64:
        return x
    return x.to(dtype) / 255 if x.dtype == torch.uint8 else x.to(dtype)


def batches(
    x: Tensor,
    y: Tensor,
    batch_size: int,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Every example once as (x, y) batches, the last one possibly smaller.

    uint8 becomes float32 in [0, 1]; floats and int64 stay as they are. `generator` shuffles (its
    state moves by one permutation, at the call), None keeps the order.

    >>> x = torch.tensor([[0], [51], [255]], dtype=torch.uint8)
    >>> [part.flatten().tolist() for part, _ in batches(x, torch.arange(3), 2)]
    [[0.0, 0.20000000298023224], [1.0]]
    """
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}, expected at least 1")
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} examples but y has {len(y)}")
    order = None
    if generator is not None:
        order = torch.randperm(len(x), generator=generator, device=generator.device).to(x.device)
    return _slices(x, y, batch_size, order, device)


def _slices(
    x: Tensor,
    y: Tensor,
    batch_size: int,
    order: Tensor | None,
    device: torch.device | str | None,
) -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, len(x), batch_size):
        chosen = slice(start, start + batch_size)
        index = chosen if order is None else order[chosen]
        # Always a copy: whoever changes a batch in place must not change the dataset.
        kept = x.dtype if x.dtype == torch.int64 else torch.float32
        part = x[index].to(device=device, dtype=kept, copy=True)
        yield (part.div_(255) if x.dtype == torch.uint8 else part), y[index].to(device)
