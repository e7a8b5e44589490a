"""Control: each unit is coupled only to the mean of the map; nothing is solved."""

import torch
from torch import Tensor

from ibnn.lab.models.neurons.followed import map_dims
from ibnn.lab.models.neurons.own_lam import OwnLam, OwnLamKind


class MeanFieldMap(OwnLam):
    def forward(self, y: Tensor) -> Tensor:
        mean = y.mean(map_dims(y), keepdim=True)
        return y - self.effective_lam * torch.tanh(self.effective_slope * (mean - y))


class MeanField(OwnLamKind):
    name = "mean-field"
    about = (
        "z = y - lam tanh(p (m - y)), m the mean of the map: each unit is coupled only to the "
        "mean, no solve"
    )
    makes = MeanFieldMap
