"""Control: one explicit step of the paper's equation, from z = y."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

import ibnn
from ibnn.lab.models.neurons.followed import MapKind, settings_of
from ibnn.lab.models.neurons.kind import lam_title
from ibnn.lab.models.neurons.own_lam import OwnLam

if TYPE_CHECKING:
    from ibnn.lab.models.neuron import Neuron


class LiteMap(OwnLam):
    def forward(self, y: Tensor) -> Tensor:
        rows = y.flatten(2)  # a map is one row of units
        lam, slope = self.effective_lam, self.effective_slope
        return ibnn.implicit_bias(rows, lam, slope, solver="lite").view_as(y)


class Lite(MapKind):
    name = "lite"
    about = "z = y - lam B(y), B the mean of tanh(p (y_k - y_i)) over the map: one explicit step"
    fields = ("lam", "learn_lam", "slope", "bounded")

    def then(self, neuron: Neuron, layer: int, channels: int) -> nn.Module:
        return LiteMap(**settings_of(neuron, layer))

    def title(self, config: Any) -> str:
        return f"{self.name} {lam_title(config)}"
