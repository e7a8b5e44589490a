"""The implicit bias as a fixed number of plain torch ops, which any exporter can record.

Newton's method on the energy, of which every step is the same few ops: the differences of the
pairs of a row, a fixed number of conjugate gradient steps for J d = -r, and a line search along d
of two trials. Below the threshold of uniqueness the energy is convex, so that its slope
along d tells an overshoot from progress.

Uniform and matrix couplings compare all pairs: rows * D^2 numbers in memory at once, and
`steps * (CG_STEPS + 3)` passes over them. Meant for rows of up to about 1024 units, and refused
above 4096. A `Window` costs its kernel in place of D.
"""

import copy
import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ibnn.coupling import Coupling, Uniform, Window
from ibnn.coupling.sums import MATRIX
from ibnn.nn.layer import ImplicitLayer
from ibnn.sigma import TANH, Sigma

MOST_UNITS = 4096
# Rows of 16 and 128 units, slopes 1 to 30, std 0.03 to 5, lam from -1 to 0.95 of the threshold:
# with 8, at most 9 Newton steps for an error of 1e-5 (other numbers were not compared).
CG_STEPS = 8
# 0 / 0 is 0 where there is nothing left to do; far below any square that matters in float32
_TINY = 1e-30


class PlainBias(nn.Module):
    """F: y -> z of an implicit layer, in `steps` Newton steps."""

    lam: Tensor
    slope: Tensor

    def __init__(self, layer: ImplicitLayer) -> None:
        super().__init__()
        if layer.solver.approximate:
            raise ValueError(
                f"solver {layer.solver.name!r} is approximate: what it computes has no other steps"
            )
        if type(layer.sigma).derivative is Sigma.derivative:
            raise ValueError(
                f"sigma {layer.sigma.name} has no formula for its derivative: give it a method "
                "derivative(x, order)"
            )
        if not isinstance(layer.coupling, (Uniform, Window)) and layer.coupling.sums is not MATRIX:
            raise ValueError(f"coupling {layer.coupling} has sums of its own, which are not known")
        self.sigma = layer.sigma
        self.coupling = copy.deepcopy(layer.coupling)
        self.register_buffer("lam", layer.effective_lam.detach().clone())
        self.register_buffer("slope", layer.effective_slope.detach().clone())
        self.steps = 1

    def forward(self, y: Tensor) -> Tensor:
        units = [dim % y.ndim for dim in self.coupling.dims]
        order = [dim for dim in range(y.ndim) if dim not in units] + units
        shape = [int(y.shape[dim]) for dim in units]
        dtype = torch.float64 if y.dtype == torch.float64 else torch.float32
        rows = y.permute(order).flatten(len(order) - len(units)).to(dtype)
        lam, slope = (
            value.to(dtype).unsqueeze(-1) if value.ndim else value.to(dtype)
            for value in (self.lam, self.slope)
        )
        z = self._solve(rows * slope, lam * slope, _pairs_of(self.coupling, shape, dtype)) / slope
        restored = z.unflatten(-1, shape) if len(shape) > 1 else z
        return restored.permute([order.index(dim) for dim in range(y.ndim)]).to(y.dtype)

    def _solve(self, y: Tensor, strength: Tensor, pairs: "_Pairs") -> Tensor:
        """u - y + strength * B(u) = 0, in units where sigma has slope 1."""
        u = y
        for _ in range(self.steps):
            values, slopes = _value_and_slope(self.sigma, pairs.differences(u))
            residual = u - y + strength * pairs.total(values)
            d = _newton_direction(residual, pairs.weighted(slopes), strength, pairs)
            u = u + self._length(u, d, y, strength, residual, pairs) * d
        return u

    def _length(
        self, u: Tensor, d: Tensor, y: Tensor, strength: Tensor, residual: Tensor, pairs: "_Pairs"
    ) -> Tensor:
        """How far to go along d: all the way while the energy falls there, else near its lowest
        point, by the secant and one step of false position (Illinois). The secant alone can go to
        and fro for ever where sigma is steep (slope 30, lam = -1)."""

        def slope(length: Tensor) -> Tensor:
            trial = u + length * d
            values = self.sigma.derivative(pairs.differences(trial), 0)
            return ((trial - y + strength * pairs.total(values)) * d).sum(-1, keepdim=True)

        start = (residual * d).sum(-1, keepdim=True)
        one = torch.ones_like(start)
        end = slope(one)
        secant = start / (start - end - _TINY)
        middle = slope(secant)
        # between the start and the secant, or between the secant and the end
        before = secant * (start / 2) / (start / 2 - middle - _TINY)
        after = secant - (1 - secant) * middle / (end / 2 - middle + _TINY)
        inside = torch.where(middle > 0, before, after)
        return torch.where(end > 0, inside, one)


def _value_and_slope(sigma: Sigma, x: Tensor) -> tuple[Tensor, Tensor]:
    if sigma is TANH:
        value = torch.tanh(x)
        return value, 1 - value * value
    return sigma.derivative(x, 0), sigma.derivative(x, 1)


def _newton_direction(
    residual: Tensor, weights: Tensor, strength: Tensor, pairs: "_Pairs"
) -> Tensor:
    """J d = -r by conjugate gradients, with the diagonal of J as preconditioner."""
    mass = weights.sum(-1)
    diagonal = 1 + strength * (pairs.own(weights) - mass)
    d = torch.zeros_like(residual)
    r = -residual
    s = r / diagonal
    p = s
    size = (r * s).sum(-1, keepdim=True)
    for _ in range(CG_STEPS):
        q = p + strength * (pairs.apply(weights, p) - mass * p)
        length = size / ((p * q).sum(-1, keepdim=True) + _TINY)
        d = d + length * p
        r = r - length * q
        s = r / diagonal
        before, size = size, (r * s).sum(-1, keepdim=True)
        p = s + (size / (before + _TINY)) * p
    return d


class _Pairs:
    """All pairs of a row, w a number or a matrix: tensors of shape (..., unit, neighbor)."""

    def __init__(self, weight: "float | Tensor") -> None:
        self.weight = weight

    def differences(self, u: Tensor) -> Tensor:
        """u_k - u_i."""
        return u.unsqueeze(-2) - u.unsqueeze(-1)

    def weighted(self, values: Tensor) -> Tensor:
        return values * self.weight

    def total(self, values: Tensor) -> Tensor:
        return self.weighted(values).sum(-1)

    def apply(self, weights: Tensor, v: Tensor) -> Tensor:
        """sum_k weights_ik v_k."""
        return (weights @ v.unsqueeze(-1)).squeeze(-1)

    def own(self, weights: Tensor) -> Tensor:
        """weights_ii."""
        return weights.diagonal(dim1=-2, dim2=-1)


class _WindowPairs(_Pairs):
    """The neighbors of a unit within a window, the unit itself left out."""

    def __init__(self, taps: Tensor, shape: Sequence[int]) -> None:
        middle = [size // 2 for size in taps.shape]
        places = [
            place for place in itertools.product(*map(range, taps.shape)) if list(place) != middle
        ]
        self.shape = list(shape)
        self.shifts = [
            tuple(slice(p, p + n) for p, n in zip(place, shape, strict=True)) for place in places
        ]
        self.padding = [side for size in reversed(middle) for side in (size, size)]
        inside = self.neighbors(torch.ones(math.prod(shape), dtype=taps.dtype, device=taps.device))
        super().__init__(inside * torch.stack([taps[place] for place in places]))

    def neighbors(self, v: Tensor) -> Tensor:
        """v_k for every neighbor k of i; 0 beyond the border."""
        maps = v.unflatten(-1, self.shape) if len(self.shape) > 1 else v
        padded = functional.pad(maps, self.padding)
        shifted = [padded[(..., *shift)] for shift in self.shifts]
        return torch.stack([part.flatten(-len(self.shape)) for part in shifted], -1)

    def differences(self, u: Tensor) -> Tensor:
        return self.neighbors(u) - u.unsqueeze(-1)

    def apply(self, weights: Tensor, v: Tensor) -> Tensor:
        return (weights * self.neighbors(v)).sum(-1)

    def own(self, weights: Tensor) -> Tensor:
        return torch.zeros_like(weights[..., 0])


def _pairs_of(coupling: Coupling, shape: Sequence[int], dtype: torch.dtype) -> _Pairs:
    size = math.prod(shape)
    if isinstance(coupling, Window):
        return _WindowPairs(coupling.weight(dtype).detach(), shape)
    if size > MOST_UNITS:
        raise ValueError(
            f"rows have {size} units, and an export compares all pairs: at most {MOST_UNITS} "
            "(a Window has no such limit)"
        )
    if isinstance(coupling, Uniform):
        return _Pairs(1 / size)
    weight = coupling.weight(dtype, shape)
    assert weight is not None
    return _Pairs(weight.detach().to(dtype))
