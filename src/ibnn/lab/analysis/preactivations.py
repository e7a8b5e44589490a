"""The pre-activations y that reach each implicit layer of a network, and the layer's settings."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import ibnn
from ibnn._core.rows import Rows
from ibnn.coupling import Coupling
from ibnn.lab.analysis.layers import capture
from ibnn.sigma import Sigma


@dataclass(frozen=True)
class Layer:
    """One implicit layer as the data reach it: z = F(y) with these settings."""

    name: str
    affine: nn.Module  # the same layer without its implicit bias: what makes y
    inputs: Tensor
    y: Tensor
    lam: Tensor
    slope: Tensor
    coupling: Coupling
    sigma: Sigma

    def solve(self, lam: float | Tensor | None = None) -> Tensor:
        """z at this layer's lam or at another one."""
        chosen = self.lam if lam is None else lam
        return ibnn.implicit_bias(
            self.y, chosen, self.slope, coupling=self.coupling, sigma=self.sigma
        )

    def rows(self, y: Tensor | None = None) -> Tensor:
        """y (or a tensor like it) as the matrix (rows, units) the coupling makes of it."""
        return Rows(self.y, self.coupling).flatten(self.y if y is None else y)

    @property
    def units(self) -> int:
        """D, the number of units that listen to each other."""
        return self.rows().shape[1]

    @property
    def threshold(self) -> float:
        """The smallest threshold of uniqueness of the layer (slopes may differ by channel)."""
        threshold = ibnn.uniqueness_threshold(self.slope, self.coupling, self.sigma)
        return float(torch.as_tensor(threshold).min())


def double(network: nn.Module) -> nn.Module:
    """A copy in float64."""
    return copy.deepcopy(network).double().eval()


def layers_of(network: nn.Module, twin: nn.Module, x: Tensor) -> list[Layer]:
    """Every implicit layer of `network` with what reaches it when `x` is shown."""
    return [
        Layer(state.name, state.affine, state.x, state.y, **state.settings())
        for state in capture(network, twin, x)
    ]
