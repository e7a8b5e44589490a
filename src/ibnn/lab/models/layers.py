"""The layers of a network that have a lam."""

from typing import Any

from torch import nn

from ibnn.lab.models.neurons.own_lam import OwnLam
from ibnn.nn.layer import ImplicitLayer


def implicit_layers(network: nn.Module) -> list[Any]:
    """Every layer of the network that solves for an implicit bias, first to last."""
    return [module for module in network.modules() if isinstance(module, ImplicitLayer)]


def lam_layers(network: nn.Module) -> list[Any]:
    """Every layer with a lam, first to last: the implicit ones and the controls that have one.

    Each has `lam`, `slope`, `effective_lam` and `effective_slope`.
    """
    return [module for module in network.modules() if isinstance(module, ImplicitLayer | OwnLam)]
