"""Control: instance normalization, each map to mean 0 and variance 1; plain or affine."""

import torch
from torch import Tensor, nn

from ibnn.lab.models.neurons.followed import MapKind, map_dims, moments
from ibnn.lab.models.neurons.kind import Neuron

EPS = 1e-5  # added to the variance, as torch does


class InstanceNormMap(nn.Module):
    """`affine`: a weight and a bias per channel, from 1 and 0."""

    def __init__(self, channels: int, affine: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None

    def forward(self, y: Tensor) -> Tensor:
        mean, variance = moments(y, map_dims(y))
        z = (y - mean) * (variance + EPS).rsqrt()
        if self.weight is None or self.bias is None:
            return z
        per_channel = (-1, *[1] * (y.ndim - 2))
        return z * self.weight.view(per_channel) + self.bias.view(per_channel)


class InstanceNorm(MapKind):
    name = "instance-norm"
    about = "z = (y - m) / sqrt(var + 1e-5), m and var of the map: no parameter"

    def then(self, neuron: Neuron, layer: int, channels: int) -> nn.Module:
        return InstanceNormMap(channels, affine=False)


class InstanceNormAffine(MapKind):
    name = "instance-norm-affine"
    about = "instance-norm with a weight and a bias per channel"

    def then(self, neuron: Neuron, layer: int, channels: int) -> nn.Module:
        return InstanceNormMap(channels, affine=True)
