"""What goes into and comes out of every implicit layer of a network, on given inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ibnn import theory
from ibnn.lab.analysis.operator import BiasOperator
from ibnn.lab.analysis.section import DoesNotApply
from ibnn.nn.layer import BiasMixin


@dataclass(frozen=True)
class LayerState:
    """One layer on a batch: its input x, y = A(x) and z = F(y)."""

    name: str
    layer: BiasMixin
    affine: nn.Module  # A: the same layer of the twin
    x: Tensor
    y: Tensor
    z: Tensor

    def operator(self) -> BiasOperator:
        """J and K_inf at z."""
        return BiasOperator(self.z, **self.settings())

    def settings(self) -> dict[str, Any]:
        """The layer's own arguments of `ibnn.implicit_bias`."""
        layer = self.layer
        return {
            "lam": layer.effective_lam.detach(),
            "slope": layer.effective_slope.detach(),
            "coupling": layer.coupling,
            "sigma": layer.sigma,
        }

    def flat_settings(self) -> list[tuple[float, float]]:
        """(lam, slope) once per channel, or once."""
        pairs = torch.broadcast_tensors(self.layer.effective_lam, self.layer.effective_slope)
        return [(float(a), float(b)) for a, b in zip(*(p.reshape(-1) for p in pairs), strict=True)]

    def threshold(self) -> float:
        """The lowest threshold of uniqueness of its channels."""
        coupling, sigma = self.layer.coupling, self.layer.sigma
        slopes = (slope for _, slope in self.flat_settings())
        return min(float(theory.uniqueness_threshold(p, coupling, sigma)) for p in slopes)


@torch.no_grad()
def capture(network: nn.Module, twin: nn.Module, x: Tensor) -> list[LayerState]:
    """Every implicit layer of `network` on the batch x, first to last."""
    names = [name for name, module in network.named_modules() if isinstance(module, BiasMixin)]
    if not names:
        raise DoesNotApply("the network has no implicit layer; convert it first (--lam)")
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def remember(name: str) -> Any:
        return lambda _, given, out: seen.__setitem__(name, (given[0], out))

    handles = [network.get_submodule(name).register_forward_hook(remember(name)) for name in names]
    try:
        network(x)
    finally:
        for handle in handles:
            handle.remove()
    states = []
    for name in names:
        if name not in seen:
            continue  # registered, but not on the way from input to output
        given, z = seen[name]
        layer, affine = network.get_submodule(name), twin.get_submodule(name)
        assert isinstance(layer, BiasMixin)
        states.append(LayerState(name, layer, affine, given, affine(given), z))
    return states
