"""The fast sums behind `Uniform`: P_n(z, a), and the solves made of it, in O(D) per row.

Two implementations of the same three functions: `portable` (torch ops, any device) and `native`
(compiled, CPU). Everything here is in scaled units: slope 1, `strength = lam * slope`.
"""

import torch
from torch import Tensor

from ibnn.kernelsum import portable
from ibnn.sigma import Sigma

_SIGMAS = ("tanh", "hardtanh", "arctan", "erf")


def offers(sigma: Sigma, order: int = 0) -> bool:
    """Whether the sums of this sigma's derivative are in O(D) here."""
    return sigma.key in _SIGMAS and 0 <= order <= 3


def pair_sum(z: Tensor, a: Tensor | None, order: int, sigma: str) -> Tensor:
    """(1/D) sum_k a_k s_n(z_k - z_i) for every unit i of every row."""
    return _engine(z).pair_sum(z, a, order, sigma)


def find_roots(
    y: Tensor, strength: Tensor, atol: Tensor, sigma: str
) -> tuple[Tensor, Tensor, Tensor]:
    """z with z + strength * P_0(z, 1) = y, the largest residual and the steps of each row."""
    return _engine(y).find_roots(y, strength, atol, sigma)


def solve_jacobian(
    z: Tensor, g: Tensor, strength: Tensor, sigma: str, with_strength_grad: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """v with J(z) v = g, the relative residual of each row, and v . P_0(z, 1) of each row."""
    return _engine(z).solve_jacobian(z, g, strength, sigma, with_strength_grad)


def _engine(tensor: Tensor):
    return portable
