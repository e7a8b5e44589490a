"""Uniform coupling: every unit listens to every unit of its row with weight 1/D."""

from collections.abc import Sequence

from torch import Tensor

from ibnn import engine
from ibnn.coupling.base import Coupling, Kernel, blocked_sum, count
from ibnn.sigma import Sigma


class Uniform(Coupling):
    """w_ik = 1/D over the D units of `dims` (k = i is counted; it adds nothing).

    >>> Uniform(dims=(-2, -1))
    Uniform(dims=(-2, -1))
    """

    kernel = "uniform"

    def __init__(self, dims: int | Sequence[int] = -1) -> None:
        super().__init__()
        chosen = tuple(dims) if isinstance(dims, Sequence) else (dims,)
        if not chosen or not all(isinstance(d, int) for d in chosen):
            raise ValueError(f"dims must be an int or a non-empty sequence of ints, got {dims!r}")
        if len(set(chosen)) != len(chosen):
            raise ValueError(f"dims={dims!r} names a dim twice")
        self.dims = chosen

    def largest_eigenvalue(self) -> float:
        return 1.0

    def extra_repr(self) -> str:
        return f"dims={self.dims[0] if len(self.dims) == 1 else self.dims}"


class UniformKernel(Kernel):
    name = "uniform"

    def pair_sum(
        self,
        z: Tensor,
        a: Tensor | None,
        weight: Tensor | None,
        order: int,
        sigma: Sigma,
        units: Sequence[int],
    ) -> Tensor:
        if engine.offers(sigma, order):
            return engine.pair_sum(z, a, order, sigma.name)
        return blocked_sum(z, a, order, sigma)

    def self_weight(self, weight: Tensor | None, units: Sequence[int]) -> float:
        return 1 / max(count(units), 1)

    def eigenvalue_bound(self, weight: Tensor | None) -> float:
        return 1.0

    def reduces(self, sigma: Sigma) -> bool:
        return engine.offers(sigma)

    def find_roots(
        self,
        y: Tensor,
        strength: Tensor,
        slope: Tensor,
        atol: Tensor,
        resolution: float,
        sigma: Sigma,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return engine.find_roots(y, strength, slope, atol, resolution, sigma.name)

    def solve_jacobian(
        self, z: Tensor, g: Tensor, strength: Tensor, sigma: Sigma
    ) -> tuple[Tensor, Tensor, Tensor]:
        return engine.solve_jacobian(z, g, strength, sigma.name, True)
