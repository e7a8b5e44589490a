"""Picard's iteration: put z into the right-hand side and read off the next z."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ibnn.solver.base import Iteration, State
from ibnn.solver.system import System


@dataclass(frozen=True)
class Picard(Iteration):
    """z <- y - lam B(z). Converges for |lam| * slope * mu below about 1; rows that do not are
    reported."""

    name: ClassVar[str] = "picard"
    max_steps: ClassVar[int] = 500

    def step(
        self, system: System, z: Tensor, residual: Tensor, state: State
    ) -> tuple[Tensor, Tensor | None, State]:
        return z - residual, None, state
