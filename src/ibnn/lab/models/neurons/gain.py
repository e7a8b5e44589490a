"""Control: the neuron where sigma is linear, a gain about the mean of the map."""

from torch import Tensor

from ibnn.lab.models.neurons.followed import map_dims
from ibnn.lab.models.neurons.own_lam import OwnLam, OwnLamKind


class GainMap(OwnLam):
    def forward(self, y: Tensor) -> Tensor:
        mean = y.mean(map_dims(y), keepdim=True)
        # y + (y - m) lam p / (1 - lam p): at lam = 0 exactly y, without rounding
        strength = self.effective_lam * self.effective_slope
        return y + (y - mean) * (strength / (1 - strength))


class Gain(OwnLamKind):
    name = "gain"
    about = "z = m + (y - m) / (1 - lam p), m the mean of the map: the neuron with a linear sigma"
    makes = GainMap
