"""The fast sums: those behind `Uniform`, P_n(z, a), and the solves made of it, in O(D) per row;
and compiled ones over neighbourhoods and matrices.

Two implementations of the same three functions: `portable` (torch ops, any device) and `native`
(compiled, CPU). In units where sigma has slope 1, unless said otherwise: `strength = lam * slope`.
"""

from types import ModuleType

import torch
from torch import Tensor

from ibnn.engine.native import calls as native
from ibnn.engine.native import loader
from ibnn.engine.native.calls import matrix_sum as matrix_sum
from ibnn.engine.native.calls import window_sum as window_sum
from ibnn.engine.portable import rows as portable
from ibnn.sigma import Sigma

_SIGMAS = ("tanh", "hardtanh", "arctan", "erf")


def offers(sigma: Sigma, order: int = 0) -> bool:
    """Whether the sums of this sigma's derivative are in O(D) here."""
    return sigma.key in _SIGMAS and 0 <= order <= 3


def pair_sum(z: Tensor, a: Tensor | None, order: int, sigma: str) -> Tensor:
    """(1/D) sum_k a_k s_n(z_k - z_i) for every unit i of every row."""
    return _engine(z).pair_sum(z, a, order, sigma)


def compiled(z: Tensor, sigma: Sigma, order: int) -> bool:
    """Whether `window_sum` and `matrix_sum` of the compiled engine can be had for this z."""
    return offers(sigma, order) and z.dtype in native.DTYPES and _engine(z) is native


def find_roots(
    y: Tensor, strength: Tensor, slope: Tensor, atol: Tensor, resolution: float, sigma: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z such that slope * z solves the equation of slope * y; and of each row the largest residual
    of slope * z, the steps, and whether it is solved: to atol, or to the share `resolution` of the
    row's range, if that is less."""
    if _engine(y) is native:
        return native.solve_rows(y, strength, slope, atol, resolution, sigma)
    low, high = y.amin(-1), y.amax(-1)
    spread, reach = (high - low) * slope, high.maximum(-low) * slope
    if resolution:
        atol = torch.where(spread > 0, torch.minimum(atol, resolution * spread), atol)
    p = slope.unsqueeze(-1)
    z, residual, steps = portable.find_roots(y * p, strength, atol, sigma)
    least = (1 - strength).clamp(0.05, 1)
    # B is at most 1, and at most the spread of z
    bias = (spread / least).clamp(max=1)
    rounding = 8 * torch.finfo(y.dtype).eps * (reach + strength.abs() * bias)
    solved = residual.isfinite() & (residual <= torch.maximum(2 * least * atol, rounding))
    # y * p / p is not always y
    return torch.where(strength.unsqueeze(-1) == 0, y, z.div_(p)), residual, steps, solved


def solve_jacobian(
    z: Tensor, g: Tensor, strength: Tensor, sigma: str, with_strength_grad: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """v with J(z) v = g, the relative residual of each row, and v . P_0(z, 1) of each row."""
    return _engine(z).solve_jacobian(z, g, strength, sigma, with_strength_grad)


def _engine(tensor: Tensor) -> ModuleType:
    return native if tensor.device.type == "cpu" and loader.available() else portable
