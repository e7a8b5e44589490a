"""The portable engine: plain torch ops, on any device."""

import torch
from torch import Tensor

from ibnn import sigma as sigmas
from ibnn.engine.base import AdjointSolutions, Case, Engine, RowSolutions
from ibnn.engine.portable import rows


class PortableEngine(Engine):
    """All of `Uniform` in O(D), and the sums of every other coupling as it has them."""

    name = "portable"

    def declines(self, case: Case) -> str | None:
        if case.operation == "pair_sum":
            return None  # where it knows no better, it sums over all pairs
        if case.sums.name != "uniform":
            return f"it has no solve for {case.sums.name} weights"
        if case.sigma not in sigmas.BUILT_IN:
            return f"it has no solve for sigma {case.sigma}"
        return None

    def solve(
        self,
        case: Case,
        y: Tensor,
        strength: Tensor,
        slope: Tensor,
        weight: Tensor | None,
        atol: Tensor,
        resolution: float,
    ) -> RowSolutions:
        strength = strength.to(y.dtype)
        low, high = y.amin(-1), y.amax(-1)
        spread, reach = (high - low) * slope, high.maximum(-low) * slope
        if resolution:
            atol = torch.where(spread > 0, torch.minimum(atol, resolution * spread), atol)
        p = slope.unsqueeze(-1)
        z, residual, steps = rows.find_roots(y * p, strength, atol, case.sigma.name)
        least = (1 - strength).clamp(0.05, 1)
        # B is at most 1, and at most the spread of z
        bias = (spread / least).clamp(max=1)
        rounding = 8 * torch.finfo(y.dtype).eps * (reach + strength.abs() * bias)
        solved = residual.isfinite() & (residual <= torch.maximum(2 * least * atol, rounding))
        # y * p / p is not always y
        z = torch.where(strength.unsqueeze(-1) == 0, y, z.div_(p))
        return RowSolutions(z, residual, steps, solved)

    def adjoint(
        self, case: Case, z: Tensor, g: Tensor, strength: Tensor, weight: Tensor | None
    ) -> AdjointSolutions:
        return AdjointSolutions(*rows.solve_jacobian(z, g, strength, case.sigma.name, True))

    def pair_sum(self, case: Case, z: Tensor, a: Tensor | None, weight: Tensor | None) -> Tensor:
        quick = case.sigma in sigmas.BUILT_IN and 0 <= case.order <= 3
        if quick and case.sums.name == "uniform":
            return rows.pair_sum(z, a, case.order, case.sigma.name)
        return case.sums.pair_sum(z, a, weight, case.order, case.sigma, case.units)
