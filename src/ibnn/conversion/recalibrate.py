"""Running statistics of batch norms, computed anew on given data."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ibnn._checks import shown


@torch.no_grad()
def recalibrate_batch_norms(model: nn.Module, batches: Iterable[Any]) -> None:
    """Sets the running mean and variance of every batch norm to their plain average over `batches`
    (tensors, or tuples that start with one); everything else of the model stays as it is.

    Batch norms run as in training meanwhile and everything else as in evaluation, so that dropout
    adds no noise. One that no batch reaches keeps the statistics it had.
    """
    norms = {m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None}
    if not norms:
        raise ValueError(
            "recalibrate was given, but model has no batch norm with running statistics"
        )
    if not isinstance(batches, Iterable):
        raise TypeError(f"recalibrate must be an iterable of batches, got {shown(batches)}")
    before = [
        (norm, norm.momentum, {name: b.clone() for name, b in norm.named_buffers()})
        for norm in norms
    ]
    modes = {module: module.training for module in model.modules()}
    for module in modes:
        module.training = module in norms  # not train(): it can be overridden to freeze layers
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain average
    count = 0
    for batch in [batches] if isinstance(batches, Tensor) else batches:
        x = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
        if not isinstance(x, Tensor):
            raise TypeError(
                "recalibrate must yield tensors or tuples that start with one, "
                f"got {type(batch).__name__}"
            )
        model(x)
        count += 1
    if not count:
        raise ValueError("recalibrate yielded no batch")
    for norm, momentum, buffers in before:
        norm.momentum = momentum
        if not norm.num_batches_tracked:
            norm.load_state_dict(buffers, strict=False)
    for module, mode in modes.items():
        module.training = mode
