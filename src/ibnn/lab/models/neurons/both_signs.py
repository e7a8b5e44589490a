"""Implicit neurons with both signs of lam: one per channel, or fixed in the first layer alone.

A learnt lam goes to the positive side, which is accurate; the negative side is robust. These try
to have some of each in one network.
"""

import dataclasses
from typing import Any

from torch import nn

from ibnn.lab.models.neurons.implicit import Implicit
from ibnn.lab.models.neurons.kind import Neuron


class ImplicitPerChannel(Implicit):
    name = "implicit-per-channel"
    about = "implicit, one lam per channel: the first starts at lam, the second at -lam, and so on"

    def first_lam(self, neuron: Neuron, layer: int, channels: int) -> float | list[float]:
        lam = neuron.lam_of(layer)
        return [lam * (-1) ** channel for channel in range(channels)] if channels > 1 else lam

    def title(self, config: Any) -> str:
        return super().title(config).replace("lam learnt from ", "lam learnt from +-", 1)


class ImplicitFirstFixed(Implicit):
    name = "implicit-first-fixed"
    about = "implicit, lam of the first layer fixed, that of the others learnt from 0"

    def first_lam(self, neuron: Neuron, layer: int, channels: int) -> float | list[float]:
        return neuron.lam_of(layer) if layer == 0 else 0.0

    def conv2d(
        self, neuron: Neuron, layer: int, in_channels: int, out_channels: int, kernel: int
    ) -> nn.Conv2d:
        return super().conv2d(_of(neuron, layer), layer, in_channels, out_channels, kernel)

    def linear(self, neuron: Neuron, layer: int, in_features: int, out_features: int) -> nn.Linear:
        return super().linear(_of(neuron, layer), layer, in_features, out_features)

    def title(self, config: Any) -> str:
        start = config.lam[0] if isinstance(config.lam, tuple) else config.lam
        return f"{self.name} lam {start:g}, then learnt from 0"


def _of(neuron: Neuron, layer: int) -> Neuron:
    """The same settings with lam fixed in the first layer and learnt in the others."""
    return dataclasses.replace(neuron, learn_lam=layer > 0)
