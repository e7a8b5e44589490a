"""The portable engine: plain torch ops, on any device."""

from torch import Tensor

from ibnn import sigma as sigmas
from ibnn.coupling.sums import Products
from ibnn.engine.base import AdjointSolutions, Case, Engine, RowSolutions
from ibnn.engine.portable import rows

# units of a row that one far unit can outweigh; a tenth costs a step of Newton at most
_SHORT = 64


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
        # the range of a short row may be one unit's, far from a crowd that has to be resolved, too
        if y.shape[-1] <= _SHORT:
            resolution = resolution / 10
        found = rows.find_roots(y, slope, strength, atol, case.sigma.name, resolution)
        return RowSolutions(*found)

    def adjoint(
        self, case: Case, z: Tensor, g: Tensor, strength: Tensor, weight: Tensor | None
    ) -> AdjointSolutions:
        return AdjointSolutions(*rows.solve_jacobian(z, g, strength, case.sigma.name))

    def pair_sum(self, case: Case, z: Tensor, a: Tensor | None, weight: Tensor | None) -> Tensor:
        if _has_fast_sums(case):
            return rows.pair_sum(z, a, case.order, case.sigma.name)
        return case.sums.pair_sum(z, a, weight, case.order, case.sigma, case.units)

    def products(self, case: Case, z: Tensor, weight: Tensor | None) -> Products:
        kept = (
            None if _has_fast_sums(case) else case.sums.products(z, weight, case.sigma, case.units)
        )
        return kept or super().products(case, z, weight)


def _has_fast_sums(case: Case) -> bool:
    """Whether there are sums in O(D)."""
    built_in = case.sigma in sigmas.BUILT_IN and -1 <= case.order <= 3
    return built_in and case.sums.name == "uniform"
