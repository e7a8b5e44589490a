"""The float64 reference: Newton with the dense D x D matrix, row by row; slow, and exact."""

from dataclasses import dataclass

import torch
from torch import Tensor

import ibnn
from ibnn import sigma as sigmas
from ibnn.lab.theory_checks.numerics.operator import BiasOperator

STEPS = 20  # of Newton, quadratic from where the library ends


@dataclass(frozen=True)
class Reference:
    """z of one row, and the Cholesky factor of the Jacobian there."""

    y: Tensor
    z: Tensor
    factor: Tensor

    def gradient(self, g: Tensor) -> Tensor:
        """dL/dy where dL/dz is g."""
        return torch.cholesky_solve(g.double()[:, None], self.factor)[:, 0]

    def error(self, z: Tensor) -> float:
        """The largest |z_i - exact| / max(1, |y_i|): the promise is 1e-5 in float32."""
        return float(((z.double() - self.z).abs() / self.y.abs().clamp(min=1)).max())

    def gradient_error(self, found: Tensor, g: Tensor) -> float:
        """The error of dL/dy relative to its size, in the Euclidean norm."""
        exact = self.gradient(g)
        return float((found.double() - exact).norm() / exact.norm())


def solve(y: Tensor, lam: float, slope: float = 10.0, sigma: str = "tanh") -> Reference:
    """The solution for one row `y` under uniform coupling, lam below the threshold.

    There the solution is unique, so it does not matter where Newton starts, only that the residual,
    by sums over all pairs, ends at rounding: the library's own answer is the start.
    """
    y = y.detach().double()
    function = sigmas.resolve(sigma)
    z = ibnn.implicit_bias(y, lam, slope, sigma=sigma, on_failure="ignore")
    smallest = torch.inf
    best, factor = z, torch.empty(0)
    for _ in range(STEPS):
        residual = z - y + lam * function.value(slope * (z[None, :] - z[:, None])).mean(1)
        size = float(residual.abs().max())
        if not size < smallest / 2:  # the digits end
            break
        best, smallest = z, size
        operator = BiasOperator(z[None], lam, slope, sigma=function)
        factor = torch.linalg.cholesky(operator.dense_jacobian()[0])
        z = z - torch.cholesky_solve(residual[:, None], factor)[:, 0]
    if smallest > 1e-12 * float(y.abs().max().clamp(min=1)):
        raise RuntimeError(f"the reference has a residual of {smallest:.1e} at lam {lam:g}")
    return Reference(y, best, factor)
