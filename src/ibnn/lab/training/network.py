"""From a config to its network."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

import ibnn
from ibnn.lab.models import Neuron, lam_layers, network_kind, neuron_kind
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.errors import ConfigError
from ibnn.lab.training.seeds import generator

# fields of a config that a neuron has by the same names, and those its solves have
_NEURON = ("lam", "slope", "learn_lam", "learn_slope", "bounded", "sigma")
_SOLVE = ("solver", "adjoint", "atol", "rtol", "max_steps")


def build_network(
    config: RunConfig, image_shape: Sequence[int], classes: int, neuron: str | None = None
) -> nn.Module:
    """The network of a run with its first weights; `neuron` overrides the config's (warm-up).

    The weights depend on the seed alone: every kind of neuron starts from the same ones.
    """
    kind = network_kind(config.network)
    if kind.images and len(image_shape) != 3:
        raise ConfigError(
            f"network is {config.network!r} but {config.dataset} has no images "
            f"(shape {tuple(image_shape)}), expected network 'perceptron' or 'mlp'"
        )
    random = generator(config.seed, "weights")
    try:
        settings = Neuron(
            kind=neuron or config.neuron,
            coupling=_coupling(config),
            solve={name: getattr(config, name) for name in _SOLVE},
            **{name: getattr(config, name) for name in _NEURON},
        )
        network = kind.build(config, image_shape, classes, settings, random)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    network = network.to(getattr(torch, config.dtype))
    _set_exactly(network, settings)
    return network


@torch.no_grad()
def _set_exactly(network: nn.Module, neuron: Neuron) -> None:
    """lam and slope as the config has them: layers are made in float32, whatever comes after."""
    kind = neuron_kind(neuron.kind)
    for number, layer in enumerate(lam_layers(network)):
        first = kind.first_lam(neuron, number, layer.lam.numel())
        layer.lam.copy_(torch.tensor(first, dtype=torch.float64).reshape(layer.lam.shape))
        layer.slope.fill_(neuron.slope)


def parameter_count(network: nn.Module) -> int:
    """How many numbers of the network are learnt."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


def _coupling(config: RunConfig) -> Any:
    if config.coupling != "window" or "coupling" not in neuron_kind(config.neuron).fields:
        return config.coupling
    return ibnn.Window(
        config.window,
        profile=config.window_profile,
        std=config.window_std,
        learnable=config.learn_window,
    )
