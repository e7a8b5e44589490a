"""The compiled CPU engine: C++ behind a plain C interface, called through ctypes."""

from math import prod

from torch import Tensor

from ibnn import sigma as sigmas
from ibnn.engine.base import AdjointSolutions, Case, Engine, RowSolutions
from ibnn.engine.native import calls, loader, scalar_lam

# units of a row whose pairs are all summed: the matrix of their weights has 4 MB
_LONGEST = 1024
# and of a row that descends above the threshold (csrc/packs/descent_engine.h)
_LONGEST_DESCENT = 16384


class NativeEngine(Engine):
    """Uniform weights, windows and matrices."""

    name = "native"
    scalar_lam = scalar_lam
    takes_steps = True

    def declines(self, case: Case) -> str | None:
        if case.device != "cpu":
            return f"it is for the CPU, not for {case.device}"
        solved_by_pairs = case.sigma is sigmas.PEAKED and case.operation != "pair_sum"
        if case.sigma not in sigmas.BUILT_IN and not solved_by_pairs:
            return f"sigma {case.sigma} is not compiled"
        if solved_by_pairs and case.sums.name == "uniform" and prod(case.units) > _LONGEST:
            return f"it has no solve for rows of more than {_LONGEST} units and sigma {case.sigma}"
        if case.dtype not in calls.DTYPES:
            return f"it has no {case.dtype}"
        if case.operation == "pair_sum" and not 0 <= case.order <= 3:
            return f"it has sums of order 0 to 3, not {case.order}"
        if case.sums.name not in ("uniform", "window", "matrix"):
            return f"it has no sums over {case.sums.name} weights"
        return loader.reason_missing()

    def descends(self, case: Case) -> bool:
        is_short = prod(case.units) <= _LONGEST_DESCENT
        return is_short and case.sums.name == "uniform" and case.sigma is sigmas.TANH

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
        how = case.sigma.name, calls.weights_of(case, weight)
        return RowSolutions(*calls.solve_rows(y, strength, slope, atol, resolution, *how))

    def adjoint(
        self, case: Case, z: Tensor, g: Tensor, strength: Tensor, weight: Tensor | None
    ) -> AdjointSolutions:
        weights = calls.weights_of(case, weight)
        return AdjointSolutions(*calls.solve_jacobian(z, g, strength, case.sigma.name, weights))

    def pair_sum(self, case: Case, z: Tensor, a: Tensor | None, weight: Tensor | None) -> Tensor:
        sigma = case.sigma.name
        if weight is None:
            return calls.pair_sum(z, a, case.order, sigma)
        if case.sums.name == "window":
            return calls.window_sum(z, a, weight, case.order, sigma, case.units)
        return calls.matrix_sum(z, a, weight, case.order, sigma)

    def bias_change(self, case: Case, z: Tensor, v: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            return calls.bias_change(z, v, case.sigma.name)
        return super().bias_change(case, z, v, weight)

    def slope_change(self, case: Case, z: Tensor) -> Tensor | None:
        return calls.pair_sum(z, None, calls.STRETCH, case.sigma.name)

    def explicit_step(
        self, case: Case, y: Tensor, lam: float, slope: float, kept: bool
    ) -> tuple[Tensor, Tensor | None]:
        return calls.explicit_step(y, lam, slope, case.sigma.name, kept)

    def explicit_gradient(
        self, case: Case, z: Tensor, g: Tensor, strength: float
    ) -> tuple[Tensor, Tensor]:
        return calls.explicit_gradient(z, g, strength, case.sigma.name)
