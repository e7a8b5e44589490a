"""A sigma that is not monotonic: it rises, peaks and falls. Nothing is proven about it.

The neuron's equation comes from a model of V1 (Rentzeperis, Prandi and Bertalmio 2025) with a
further term, left out by the paper, in which a dendrite answers most to differences of middle size.
Its formula is not in the paper; this family has its shape, and tanh as the case a = 0.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from ibnn.sigma import Sigma, register

_NODES = 8  # of Gauss and Legendre in a cell of the table
_CELLS = 4096  # polynomials of degree 5 are right to 1e-12 on them for a from 0.1 to 2
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
        """From a table, as there is no closed form: quadrature at every pair of units took a
        hundred times as long as all the rest of a solve."""
        table = _table(self.a).to(x)
        place = x.abs().clamp(max=_FAR / self.a) * (_CELLS * self.a / _FAR)
        cell = place.detach().floor().clamp(max=_CELLS - 1)
        t, terms = place - cell, table[cell.long()].unbind(-1)
        value = terms[-1]
        for term in terms[-2::-1]:
            value = value * t + term
        return value

    def derivative(self, x: Tensor, order: int) -> Tensor:
        if order not in (0, 1):
            return super().derivative(x, order)
        t, fall = torch.tanh(x), torch.exp(-0.5 * (self.a * x).square())
        return t * fall if order == 0 else ((1 - t * t) - self.a**2 * x * t) * fall


@lru_cache(maxsize=8)
def _table(a: float) -> Tensor:
    """Of each cell the polynomial, in the fraction of the cell, that has the primitive's values and
    two derivatives at both ends; (cells, 6), constant first."""
    import numpy as np

    sigma, width = Peaked(a), _FAR / a / _CELLS
    ends = torch.arange(_CELLS + 1, dtype=torch.float64) * width
    points, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(_NODES))
    inside = ends[:-1, None] + width * (points + 1) / 2
    areas = (sigma.value(inside) * weights).sum(1) * width / 2
    value = torch.cat([areas.new_zeros(1), areas.cumsum(0)])
    slope, bend = sigma.value(ends) * width, sigma.derivative(ends, 1) * width**2
    (d0, d1), (s0, s1) = ((v[:-1], v[1:]) for v in (slope, bend))
    return torch.stack(
        [
            value[:-1],
            d0,
            s0 / 2,
            10 * areas - 6 * d0 - 4 * d1 - (3 * s0 - s1) / 2,
            -15 * areas + 8 * d0 + 7 * d1 + (3 * s0 - 2 * s1) / 2,
            6 * areas - 3 * (d0 + d1) - (s0 - s1) / 2,
        ],
        dim=1,
    )


PEAKED = register(Peaked(0.5, "peaked"))
