"""Control: squeeze and excitation (Hu et al. 2018), a gate per channel from all channel means."""

import math

import torch
from torch import Tensor, nn

from ibnn.lab.models.neurons.followed import MapKind, map_dims
from ibnn.lab.models.neurons.kind import Neuron


class SqueezeExciteMap(nn.Module):
    """z = y * sigmoid(A relu(B m + b) + a), m the channel means.

    As many units between as channels: the few channels here leave nothing to reduce. The
    parameters are no `nn.Linear`, so that the first weights of the network are drawn as if they
    were not there.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.squeeze = nn.Parameter(torch.zeros(channels, channels))
        self.squeeze_bias = nn.Parameter(torch.zeros(channels))
        self.excite = nn.Parameter(torch.zeros(channels, channels))
        self.excite_bias = nn.Parameter(torch.zeros(channels))

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None) -> None:
        """Uniform within 1/sqrt(fan-in), as torch draws the weights of `nn.Linear`."""
        bound = 1 / math.sqrt(len(self.squeeze))
        for parameter in self.parameters():
            parameter.uniform_(-bound, bound, generator=generator)

    def forward(self, y: Tensor) -> Tensor:
        means = y.mean(map_dims(y))
        between = torch.relu(means @ self.squeeze.T + self.squeeze_bias)
        gate = torch.sigmoid(between @ self.excite.T + self.excite_bias)
        return y * gate.view(*gate.shape, *[1] * (y.ndim - 2))


class SqueezeExcite(MapKind):
    name = "squeeze-excite"
    about = "z = y * gate, a gate per channel from all channel means: 2 C (C + 1) more parameters"
    across = True

    def then(self, neuron: Neuron, layer: int, channels: int) -> nn.Module:
        return SqueezeExciteMap(channels)
