"""From a config to its network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

import ibnn
from ibnn.lab.models import UCN, Perceptron, implicit_layers
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.errors import ConfigError
from ibnn.lab.training.seeds import generator


def build_network(
    config: RunConfig, image_shape: Sequence[int], classes: int, neuron: str | None = None
) -> nn.Module:
    """The network of a run with its first weights; `neuron` overrides the config's (warm-up).

    The weights depend on the seed alone: both neurons start from the same ones.
    """
    keywords: dict[str, Any] = {
        "neuron": neuron or config.neuron,
        "lam": config.lam,
        "slope": config.slope,
        "learn_lam": config.learn_lam,
        "learn_slope": config.learn_slope,
        "bounded": config.bounded,
        "sigma": config.sigma,
        "initialisation": config.initialisation,
        "generator": generator(config.seed, "weights"),
        "solver": config.solver,
        "adjoint": config.adjoint,
        "atol": config.atol,
        "rtol": config.rtol,
        "max_steps": config.max_steps,
    }
    if config.network == "perceptron":
        outputs = 1 if classes == 2 else classes
        network = Perceptron(math.prod(image_shape), config.hidden, outputs, **keywords)
    elif len(image_shape) != 3:
        raise ConfigError(
            f"network is 'ucn' but {config.dataset} has no images (shape {tuple(image_shape)}), "
            "expected network 'perceptron'"
        )
    else:
        network = UCN(
            image_shape,
            classes,
            config.layers,
            config.channels,
            coupling=_coupling(config),
            **keywords,
        )
    network = network.to(getattr(torch, config.dtype))
    _set_exactly(network, config)
    return network


@torch.no_grad()
def _set_exactly(network: nn.Module, config: RunConfig) -> None:
    """lam and slope as the config has them: layers are made in float32, whatever comes after."""
    for number, layer in enumerate(implicit_layers(network)):
        lam = config.lam[number] if isinstance(config.lam, tuple) else config.lam
        layer.lam.fill_(lam)
        layer.slope.fill_(config.slope)


def parameter_count(network: nn.Module) -> int:
    """How many numbers of the network are learnt."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


def _coupling(config: RunConfig) -> Any:
    if config.coupling != "window" or config.neuron == "standard":
        return config.coupling
    return ibnn.Window(
        config.window,
        profile=config.window_profile,
        std=config.window_std,
        learnable=config.learn_window,
    )
