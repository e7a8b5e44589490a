"""The first-order expansion of a layer in lam, and the standard neurons that compute it.

F(y; lam) = y - lam B(y) + R,  R = -lam (B(z) - B(y)),  z = F(y; lam).

Since z - y = -lam B(z), and DB has l_2 norm at most p mu (p: slope, mu: largest eigenvalue of the
Laplacian of w), |R| <= lam^2 p mu |B(z)|: the remainder falls as lam^2, for every lam and every
solution z.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

import ibnn
from ibnn import sigma as sigmas
from ibnn.coupling import Coupling
from ibnn.lab.theory_checks.layers import LayerState
from ibnn.lab.theory_checks.numerics.operator import BiasOperator
from ibnn.sigma import Sigma


def expansion(
    y: Tensor,
    lam: float | Tensor,
    slope: float | Tensor = 10.0,
    *,
    coupling: Coupling | None = None,
    sigma: str | Sigma = "tanh",
) -> Tensor:
    """y - lam B(y): z up to terms of second order in lam.

    >>> y = torch.tensor([0.0, 0.1], dtype=torch.float64)
    >>> expansion(y, 0.01) - ibnn.implicit_bias(y, 0.01)
    tensor([ 0.0002, -0.0002], dtype=torch.float64)
    """
    return y - ibnn.residual(y, y, lam, slope, coupling=coupling, sigma=sigma)


def remainders(layer: LayerState, lams: Sequence[float]) -> Tensor:
    """Root mean square, over rows and units, of F - (y - lam B(y)) for each lam."""
    found = []
    for lam in lams:
        first = expansion(layer.y, lam, **layer.arguments)
        found.append((layer.solve(lam) - first).square().mean().sqrt())
    return torch.stack(found)


def exponent(lams: Sequence[float], values: Tensor) -> float:
    """The power of |lam| that fits the values best, by least squares on logarithms.

    >>> round(exponent([0.1, 0.2, 0.4], torch.tensor([1.0, 4.0, 16.0])), 6)
    2.0
    """
    return float(np.polyfit(np.log(np.abs(lams)), np.log(values.double().numpy()), 1)[0])


class StandardNeurons(nn.Module):
    """A layer's first-order expansion, computed by standard neurons alone: phi(y - lam B(y)).

    D neurons make y = M x + b, one neuron for each pair (i, k) makes sigma(p (y_k - y_i)) from x,
    and D neurons add -lam w_ik of them to y_i: D (D + 2) as the paper counts them. sigma is odd, so
    the pairs (i, k) and (k, i) can share a neuron and (i, i) needs none: `shared_pairs=True` does
    with D (D + 3) / 2, the same output.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        coupling_weight: Tensor,
        lam: float,
        slope: float = 10.0,
        sigma: str | Sigma = "tanh",
        *,
        shared_pairs: bool = False,
    ) -> None:
        super().__init__()
        units = len(weight)
        self.sigma = sigmas.resolve(sigma)
        listener, speaker = _pairs(units, shared_pairs)
        self.units = _neuron(weight, bias)
        self.pairs = _neuron(
            slope * (weight[speaker] - weight[listener]), slope * (bias[speaker] - bias[listener])
        )
        add = weight.new_zeros(units, units + len(listener))
        add[:, :units] = torch.eye(units)
        column = units + torch.arange(len(listener))
        strength = -lam * coupling_weight[listener, speaker]
        add[listener, column] += strength
        if shared_pairs:
            add[speaker, column] -= strength
        self.add = _neuron(add, None)

    def forward(self, x: Tensor) -> Tensor:
        pairs = self.sigma.value(self.pairs(x))
        return self.add(torch.cat([self.units(x), pairs], dim=-1))


def emulate(layer: LayerState, *, shared_pairs: bool = False) -> StandardNeurons:
    """The standard neurons that expand one row of a layer to first order (its first row)."""
    shape = layer.x.shape[1:]
    zero = layer.x.new_zeros(shape)

    def first_row(x: Tensor) -> Tensor:
        return layer.rows(layer.affine(x.unsqueeze(0)).expand_as(layer.y))[0]

    weight = torch.func.jacrev(first_row)(zero).flatten(1).detach()  # type: ignore[union-attr]
    bias = first_row(zero).detach()
    lam, slope = (float(value.flatten()[0]) for value in (layer.lam, layer.slope))
    return StandardNeurons(
        weight,
        bias,
        coupling_matrix(layer.coupling, layer.y.shape[1:]).to(weight),
        lam,
        slope,
        layer.sigma,
        shared_pairs=shared_pairs,
    )


def coupling_matrix(coupling: Coupling, shape: Sequence[int]) -> Tensor:
    """w_ik of any coupling as a matrix, for i != k (w_ii acts on nothing) and y of this shape.

    At z = 0, lam = p = 1, the Jacobian I + DB has w beside its diagonal, as sigma'(0) = 1.

    >>> coupling_matrix(ibnn.Uniform(-1), (2,))
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]], dtype=torch.float64)
    """
    z = torch.zeros(1, *shape, dtype=torch.float64)
    first_row = BiasOperator(z, 1.0, 1.0, coupling=coupling).select(slice(0, 1))
    jacobian = first_row.dense_jacobian()[0]
    return jacobian - torch.diag(jacobian.diagonal())


def _pairs(units: int, shared: bool) -> tuple[Tensor, Tensor]:
    if shared:
        listener, speaker = torch.triu_indices(units, units, offset=1)
        return listener, speaker
    every = torch.arange(units)
    return every.repeat_interleave(units), every.repeat(units)


def _neuron(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    made = nn.Linear(*reversed(weight.shape), bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        made.weight.copy_(weight)
        if bias is not None:
            made.bias.copy_(bias)
    return made
