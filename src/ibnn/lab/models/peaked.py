"""A sigma that is not monotonic: it rises, peaks and falls. Nothing is proven about it.

The neuron's equation comes from a model of V1 (Rentzeperis, Prandi and Bertalmio 2025) with a
further term, left out by the paper, in which a dendrite answers most to differences of middle size.
Its formula is not in the paper; this family has its shape, and tanh as the case a = 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ibnn.sigma import Sigma, register

_NODES = 96  # of Gauss and Legendre: the primitive is right to 1e-12 for a from 0.1 to 2
_FAR = 8.0  # standard deviations after which the Gaussian is 0 in double precision


class Peaked(Sigma):
    """sigma(x) = tanh(x) exp(-(a x)^2 / 2), slope 1 at 0; `certified` is False.

    >>> Peaked(0.5).value(torch.tensor([0.5, 1.3, 5.0]))
    tensor([0.4479, 0.6976, 0.0439])
    """

    certified = False

    def __init__(self, a: float, name: str | None = None):
        if not (math.isfinite(a) and a > 0):
            raise ValueError(f"a is {a}, expected a positive number (a = 0 is tanh)")
        self.a, self.name = a, name or f"peaked-{a:g}"

    def value(self, x: Tensor) -> Tensor:
        return torch.tanh(x) * torch.exp(-0.5 * (self.a * x).square())

    def primitive(self, x: Tensor) -> Tensor:
        """By quadrature: there is no closed form."""
        import numpy as np

        points, weights = np.polynomial.legendre.leggauss(_NODES)
        nodes = x.new_tensor((points + 1) / 2)
        end = x.abs().clamp(max=_FAR / self.a).unsqueeze(-1)
        return (self.value(end * nodes) * x.new_tensor(weights / 2)).sum(-1) * end.squeeze(-1)

    def derivative(self, x: Tensor, order: int) -> Tensor:
        if order not in (0, 1):
            return super().derivative(x, order)
        t, fall = torch.tanh(x), torch.exp(-0.5 * (self.a * x).square())
        return t * fall if order == 0 else ((1 - t * t) - self.a**2 * x * t) * fall


PEAKED = register(Peaked(0.5, "peaked"))
