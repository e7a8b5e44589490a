"""Control for lam < 0: a fixed contraction to the mean of the map."""

from torch import Tensor, nn

from ibnn.lab.models.neurons.followed import MapKind, map_dims

FACTOR = 1 / 3  # 1 / (1 - lam p) at lam = -0.2, p = 10: what the neuron does to small differences


class ShrinkMap(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        mean = y.mean(map_dims(y), keepdim=True)
        return mean + (y - mean) * FACTOR


class Shrink(MapKind):
    name = "shrink"
    about = "z = m + (y - m) / 3, m the mean of the map: the contraction of lam = -0.2, fixed"
    makes = ShrinkMap
