"""Control: divisive normalization by the root mean square of the map."""

import torch
from torch import Tensor, nn

from ibnn.lab.models.neurons.followed import MapKind, map_dims


class DivisiveMap(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # from 1: early in training y is small (about 0.1), so that z starts close to y
        self.s = nn.Parameter(torch.tensor(1.0))

    def forward(self, y: Tensor) -> Tensor:
        power = y.square().mean(map_dims(y), keepdim=True)
        return y * (self.s.square() + power).rsqrt()


class Divisive(MapKind):
    name = "divisive"
    about = "z = y / sqrt(s^2 + mean of y^2 over the map), s learnt from 1, one per layer"
    makes = DivisiveMap
