"""One trained network at other lam, with nothing trained: as it is, or batch norms recalibrated."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ibnn.conversion.recalibrate import recalibrate_batch_norms
from ibnn.lab.models import implicit_layers


@torch.no_grad()
def with_lam(network: nn.Module, lam: float) -> nn.Module:
    """A copy that differs in nothing but lam, the same in every implicit layer.

    >>> import ibnn
    >>> with_lam(ibnn.Linear(2, 3, lam=-0.1), 0.05).lam.item() == torch.tensor(0.05).item()
    True
    """
    made = copy.deepcopy(network)
    for layer in implicit_layers(made):
        layer.lam.fill_(lam)
    return made


def recalibrated(network: nn.Module, batches: Iterable[Tensor]) -> nn.Module | None:
    """A copy whose batch norms have the statistics of these batches; None where there is none."""
    if not any(isinstance(module, _BatchNorm) for module in network.modules()):
        return None
    made = copy.deepcopy(network)
    recalibrate_batch_norms(made, batches)
    return made
