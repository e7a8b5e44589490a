"""Control: one explicit step of the paper's equation, from z = y."""

from torch import Tensor

import ibnn
from ibnn.lab.models.neurons.own_lam import OwnLam, OwnLamKind


class LiteMap(OwnLam):
    def forward(self, y: Tensor) -> Tensor:
        rows = y.flatten(2)  # a map is one row of units
        lam, slope = self.effective_lam, self.effective_slope
        return ibnn.implicit_bias(rows, lam, slope, solver="lite").view_as(y)


class Lite(OwnLamKind):
    name = "lite"
    about = "z = y - lam B(y), B the mean of tanh(p (y_k - y_i)) over the map: one explicit step"
    makes = LiteMap
