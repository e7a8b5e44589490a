"""Control: every unit hears only the mean of the map; nothing is solved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ibnn.lab.models.neurons.followed import MapKind, map_dims, settings_of
from ibnn.lab.models.neurons.kind import lam_title
from ibnn.lab.models.neurons.own_lam import OwnLam

if TYPE_CHECKING:
    from ibnn.lab.models.neuron import Neuron


class MeanFieldMap(OwnLam):
    def forward(self, y: Tensor) -> Tensor:
        mean = y.mean(map_dims(y), keepdim=True)
        return y - self.effective_lam * torch.tanh(self.effective_slope * (mean - y))


class MeanField(MapKind):
    name = "mean-field"
    about = (
        "z = y - lam tanh(p (m - y)), m the mean of the map: every unit hears only the mean, "
        "no solve"
    )
    fields = ("lam", "learn_lam", "slope", "bounded")

    def then(self, neuron: Neuron, layer: int, channels: int) -> nn.Module:
        return MeanFieldMap(**settings_of(neuron, layer))

    def title(self, config: Any) -> str:
        return f"{self.name} {lam_title(config)}"
