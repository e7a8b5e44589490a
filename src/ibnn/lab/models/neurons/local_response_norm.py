"""Control: local response normalization across neighboring channels, torch's, size 5."""

from torch import nn

from ibnn.lab.models.neurons.followed import MapKind
from ibnn.lab.models.neurons.kind import Neuron


class LocalResponseNorm(MapKind):
    name = "local-response-norm"
    about = "z = y / (1 + 1e-4 mean of y^2 over 5 neighboring channels)^0.75: no parameter"
    across = True

    def then(self, neuron: Neuron, layer: int, channels: int) -> nn.Module:
        return nn.LocalResponseNorm(5)
