"""The optimizer of the paper, and its momentum as named tensors a checkpoint can hold."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ibnn.lab.models import lam_layers
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.errors import CheckpointError


def make_optimizer(config: RunConfig, network: nn.Module) -> torch.optim.SGD:
    """SGD with momentum; the loop sets the learning rate of each epoch.

    Weight decay spares lam and slope: it would pull the neuron back to a standard one.
    """
    spared = {
        id(parameter) for layer in lam_layers(network) for parameter in (layer.lam, layer.slope)
    }
    learnt = [parameter for parameter in network.parameters() if parameter.requires_grad]
    weights = [parameter for parameter in learnt if id(parameter) not in spared]
    others = [parameter for parameter in learnt if id(parameter) in spared]
    groups = [{"params": weights, "weight_decay": config.weight_decay}]
    groups += [{"params": others, "weight_decay": 0.0}] if others else []
    return torch.optim.SGD(groups, lr=config.lr_low, momentum=config.momentum)


def momentum_of(network: nn.Module, optimizer: torch.optim.SGD) -> dict[str, Tensor]:
    """The momentum buffers by parameter name."""
    found: dict[str, Tensor] = {}
    for name, parameter in network.named_parameters():
        buffer = optimizer.state.get(parameter, {}).get("momentum_buffer")
        if buffer is not None:
            found[name] = buffer
    return found


def load_momentum(
    network: nn.Module, optimizer: torch.optim.SGD, momentum: dict[str, Tensor]
) -> None:
    """Put saved buffers back."""
    parameters = dict(network.named_parameters())
    for name, buffer in momentum.items():
        parameter = parameters.get(name)
        if parameter is None or parameter.shape != buffer.shape:
            raise CheckpointError(
                f"momentum of {name!r} with shape {tuple(buffer.shape)} does not fit the network"
            )
        optimizer.state[parameter]["momentum_buffer"] = buffer.to(parameter, copy=True)
