"""The float64 reference: Newton with the dense D x D matrix, row by row; slow, and exact."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ibnn import sigma as sigmas
from ibnn.sigma import Sigma


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

    The energy is strictly convex, so Newton's direction descends and backtracking on the energy
    converges from anywhere; where the energy's digits end, the residual decides.
    """
    function = sigmas.resolve(sigma)
    y = y.detach().double()
    z = y.clone()
    residual = _residual(z, y, lam, slope, function)
    for _ in range(200):
        direction = torch.cholesky_solve(
            residual[:, None], torch.linalg.cholesky(_jacobian(z, lam, slope, function))
        )[:, 0]
        better = _backtrack(z, residual, direction, y, lam, slope, function)
        if better is None:
            break
        z, residual = better
    factor = torch.linalg.cholesky(_jacobian(z, lam, slope, function))
    return Reference(y, z, factor)


def _backtrack(z, residual, direction, y, lam, slope, function):
    """The first of the full, half, quarter ... steps that gains; None where none does."""
    energy = None
    size = residual.abs().max()
    for halvings in range(40):
        moved = z - direction / 2**halvings
        left = _residual(moved, y, lam, slope, function)
        if left.abs().max() < size / 2:
            return moved, left
        if size < 1e-12 * y.abs().clamp(min=1).max():
            return None
        if energy is None:
            energy = _energy(z, y, lam, slope, function)
        if _energy(moved, y, lam, slope, function) < energy:
            return moved, left
    return None


def _differences(z: Tensor, slope: float) -> Tensor:
    return slope * (z[None, :] - z[:, None])


def _residual(z: Tensor, y: Tensor, lam: float, slope: float, sigma: Sigma) -> Tensor:
    return z - y + lam * sigma.derivative(_differences(z, slope), 0).mean(1)


def _energy(z: Tensor, y: Tensor, lam: float, slope: float, sigma: Sigma) -> float:
    pairs = sigma.primitive(_differences(z, slope)).mean(1).sum() / slope
    return float(((z - y).square().sum() - lam * pairs) / 2)


def _jacobian(z: Tensor, lam: float, slope: float, sigma: Sigma) -> Tensor:
    weights = sigma.derivative(_differences(z, slope), 1) * (lam * slope / len(z))
    return torch.eye(len(z), dtype=z.dtype) + weights - torch.diag(weights.sum(1))
