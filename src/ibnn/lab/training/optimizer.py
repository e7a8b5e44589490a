"""The optimizers, and their state as named tensors a checkpoint can hold."""

import torch
from torch import Tensor, nn

from ibnn.lab.models import implicit_layers, lam_layers
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.errors import CheckpointError

# What an optimizer keeps of a parameter; momentum goes by the parameter's name alone.
_KEPT = ("momentum_buffer", "exp_avg", "exp_avg_sq", "step")


def make_optimizer(config: RunConfig, network: nn.Module) -> torch.optim.Optimizer:
    """SGD with momentum, or AdamW; the loop sets the learning rate.

    Weight decay spares lam, slope and what a coupling learns: it would pull the neuron back to a
    standard one, and a window to no neighbors. AdamW's spares biases, norms and everything else
    that is not a matrix, as is the custom.
    """
    adamw = config.optimizer == "adamw"
    # not `ibnn.parameter_groups`: the controls, which are no implicit layers, have a lam too
    neuron = [part for layer in lam_layers(network) for part in (layer.lam, layer.slope)]
    neuron += [part for layer in implicit_layers(network) for part in layer.coupling.parameters()]
    spared = {id(parameter) for parameter in neuron}
    learnt = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if adamw:
        spared |= {id(parameter) for parameter in learnt if parameter.ndim < 2}
    weights = [parameter for parameter in learnt if id(parameter) not in spared]
    others = [parameter for parameter in learnt if id(parameter) in spared]
    groups = [{"params": weights, "weight_decay": config.weight_decay}]
    groups += [{"params": others, "weight_decay": 0.0}] if others else []
    if adamw:
        return torch.optim.AdamW(groups, lr=config.lr_low)
    return torch.optim.SGD(groups, lr=config.lr_low, momentum=config.momentum)


def momentum_of(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's buffers by parameter name."""
    found: dict[str, Tensor] = {}
    for name, parameter in network.named_parameters():
        kept = optimizer.state.get(parameter, {})
        for part in _KEPT:
            if kept.get(part) is not None:
                found[name if part == "momentum_buffer" else f"{name}/{part}"] = kept[part]
    return found


def load_momentum(
    network: nn.Module, optimizer: torch.optim.Optimizer, momentum: dict[str, Tensor]
) -> None:
    """Put saved buffers back."""
    parameters = dict(network.named_parameters())
    for key, buffer in momentum.items():
        name, _, part = key.partition("/")
        parameter = parameters.get(name)
        if parameter is None or (part != "step" and parameter.shape != buffer.shape):
            raise CheckpointError(
                f"momentum of {name!r} with shape {tuple(buffer.shape)} does not fit the network"
            )
        # the count of steps stays where AdamW has it: on the processor, in float32
        own = buffer.clone() if part == "step" else buffer.to(parameter, copy=True)
        optimizer.state[parameter][part or "momentum_buffer"] = own
