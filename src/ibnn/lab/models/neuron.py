"""Which neuron a network is made of, with its settings; and the layers that have a lam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from ibnn.lab.models.neurons import neuron_kind
from ibnn.lab.models.neurons.own_lam import OwnLam
from ibnn.nn.layer import ImplicitLayer


@dataclass(frozen=True)
class Neuron:
    """A kind of neuron by name and the settings its hidden layers are made with.

    `lam` is one number for every layer, or one per layer. `coupling` is a name that
    `ibnn.Conv2d` knows or a coupling object, of which each layer gets its own copy. `solve`
    holds the remaining keywords of the implicit layer (`solver`, `adjoint`, `atol`, ...). A kind
    uses what its `fields` name and ignores the rest.
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
        neuron_kind(self.kind)

    def conv2d(
        self,
        layer: int,
        in_channels: int,
        out_channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        bias: bool = True,
    ) -> nn.Conv2d:
        """The convolution of hidden layer number `layer`."""
        made = neuron_kind(self.kind).conv2d(self, layer, in_channels, out_channels, kernel)
        # set on the finished layer, so that a kind need not know of them: what a neuron adds
        # follows the convolution, whatever its stride
        made.stride, made.padding = (stride, stride), (padding, padding)
        if not bias:
            made.register_parameter("bias", None)
        return made

    def linear(self, layer: int, in_features: int, out_features: int) -> nn.Linear:
        """The fully connected map of hidden layer number `layer`."""
        return neuron_kind(self.kind).linear(self, layer, in_features, out_features)

    def of_features(self) -> Neuron:
        """The same without a coupling of images: the units of a linear layer are one row."""
        return replace(self, coupling=None)

    def lam_of(self, layer: int) -> float:
        """Where lam of hidden layer number `layer` starts, or stays."""
        return float(self.lam[layer] if isinstance(self.lam, Sequence) else self.lam)

    def check_layers(self, layers: int) -> None:
        """Refuse a list of `lam` that does not have one value per layer."""
        if isinstance(self.lam, Sequence) and len(self.lam) != layers:
            raise ValueError(f"lam has {len(self.lam)} values, expected one or {layers}")


def implicit_layers(network: nn.Module) -> list[Any]:
    """Every layer of the network that solves for an implicit bias, first to last."""
    return [module for module in network.modules() if isinstance(module, ImplicitLayer)]


def lam_layers(network: nn.Module) -> list[Any]:
    """Every layer with a lam, first to last: the implicit ones and the controls that have one.

    Each has `lam`, `slope`, `effective_lam` and `effective_slope`.
    """
    return [module for module in network.modules() if isinstance(module, ImplicitLayer | OwnLam)]
