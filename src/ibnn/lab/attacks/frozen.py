"""A model while it is attacked: evaluation mode, no gradients to parameters, all put back after."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and constant parameters inside; afterwards everything is as it was.

    Each module's mode and each parameter's flag is its own (a frozen batch norm in a training
    network stays one). Gradients are off inside; an attack turns them on where it takes one.
    """
    modes = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    devices = {p.device for p, _ in flags if p.device.type == "cuda"}
    try:
        model.eval()
        for parameter, _ in flags:
            parameter.requires_grad_(False)
        # A caller in inference mode could take no gradient at all.
        with (
            torch.random.fork_rng(devices=sorted(devices, key=str)),
            torch.inference_mode(False),
            torch.no_grad(),
        ):
            yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
