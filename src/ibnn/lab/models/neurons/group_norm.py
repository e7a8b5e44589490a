"""Control: all channels of an image normalized as one group."""

from torch import Tensor, nn

from ibnn.lab.models.neurons.followed import MapKind, moments
from ibnn.lab.models.neurons.instance_norm import EPS


class GroupNormMap(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        mean, variance = moments(y, tuple(range(1, y.ndim)))
        return (y - mean) * (variance + EPS).rsqrt()


class GroupNorm(MapKind):
    name = "group-norm"
    about = "z = (y - m) / sqrt(var + 1e-5), m and var of all channels: one group, no parameter"
    makes = GroupNormMap
