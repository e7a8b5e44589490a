"""Which neuron a network is made of: the standard one, or the implicit bias with its settings."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

import ibnn

KINDS = ("standard", "implicit")


@dataclass(frozen=True)
class Neuron:
    """The settings that turn `nn.Conv2d` and `nn.Linear` into their implicit counterparts.

    `lam` is one number for every layer, or one per layer. `coupling` is a name that
    `ibnn.Conv2d` knows or a coupling object, of which each layer gets its own copy. `solve`
    holds the remaining keywords of the layer (`solver`, `adjoint`, `atol`, ...).
    """

    kind: str = "standard"
    lam: float | Sequence[float] = 0.0
    slope: float = 10.0
    learn_lam: bool = True
    learn_slope: bool = False
    bounded: bool = True
    coupling: Any = None
    sigma: str = "tanh"
    solve: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"neuron is {self.kind!r}, expected one of {', '.join(KINDS)}")

    def conv2d(self, layer: int, in_channels: int, out_channels: int, kernel: int) -> nn.Conv2d:
        """The convolution of hidden layer number `layer`."""
        if self.kind == "standard":
            return nn.Conv2d(in_channels, out_channels, kernel)
        return ibnn.Conv2d(in_channels, out_channels, kernel, **self._keywords(layer))

    def linear(self, layer: int, in_features: int, out_features: int) -> nn.Linear:
        """The fully connected map of hidden layer number `layer`."""
        if self.kind == "standard":
            return nn.Linear(in_features, out_features)
        return ibnn.Linear(in_features, out_features, **self._keywords(layer))

    def check_layers(self, layers: int) -> None:
        """Refuse a list of `lam` that does not have one value per layer."""
        if isinstance(self.lam, Sequence) and len(self.lam) != layers:
            raise ValueError(f"lam has {len(self.lam)} values, expected one or {layers}")

    def _keywords(self, layer: int) -> dict[str, Any]:
        lam = self.lam[layer] if isinstance(self.lam, Sequence) else self.lam
        keywords: dict[str, Any] = dict(
            lam=float(lam),
            slope=self.slope,
            learn_lam=self.learn_lam,
            learn_slope=self.learn_slope,
            bounded=self.bounded,
            sigma=self.sigma,
            **self.solve,
        )
        if self.coupling is not None:
            keywords["coupling"] = copy.deepcopy(self.coupling)
        return keywords


def implicit_layers(network: nn.Module) -> list[Any]:
    """Every layer of the network that solves for an implicit bias, first to last."""
    return [module for module in network.modules() if hasattr(module, "effective_lam")]
