"""Control: the neuron where sigma is linear, a gain about the mean of the map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from ibnn.lab.models.neurons.followed import MapKind, map_dims, settings_of
from ibnn.lab.models.neurons.kind import lam_title
from ibnn.lab.models.neurons.own_lam import OwnLam

if TYPE_CHECKING:
    from ibnn.lab.models.neuron import Neuron


class GainMap(OwnLam):
    def forward(self, y: Tensor) -> Tensor:
        mean = y.mean(map_dims(y), keepdim=True)
        # y + (y - m) lam p / (1 - lam p): at lam = 0 exactly y, without rounding
        strength = self.effective_lam * self.effective_slope
        return y + (y - mean) * (strength / (1 - strength))


class Gain(MapKind):
    name = "gain"
    about = "z = m + (y - m) / (1 - lam p), m the mean of the map: the neuron with a linear sigma"
    fields = ("lam", "learn_lam", "slope", "bounded")

    def then(self, neuron: Neuron, layer: int, channels: int) -> nn.Module:
        return GainMap(**settings_of(neuron, layer))

    def title(self, config: Any) -> str:
        return f"{self.name} {lam_title(config)}"
