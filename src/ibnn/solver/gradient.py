"""The paper's iteration: gradient descent on the energy, with a fixed or a searched step."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ibnn._checks import check_positive
from ibnn.solver.base import Iteration, State
from ibnn.solver.newton import line_search
from ibnn.solver.system import System


@dataclass(frozen=True)
class Gradient(Iteration):
    """z^(n+1) = z^(n) + tau (y - z^(n) - lam B(z^(n))).

    Args:
        step_rule: "fixed" takes `tau` in every step; "armijo" halves it until the energy has
            fallen; "wolfe" also grows it until the slope along the step has flattened.
        tau: the step, or where its search begins (default: 1 / (1 + max(0, -lam) slope mu), one
            over the largest curvature of the energy, so that no step climbs, if fixed; 1 if
            searched).
    """

    name: ClassVar[str] = "gradient"
    max_steps: ClassVar[int] = 5000

    step_rule: str = "fixed"
    tau: float | None = None

    def __post_init__(self) -> None:
        if self.step_rule not in ("fixed", "armijo", "wolfe"):
            raise ValueError(
                f"step_rule={self.step_rule!r} is not known; expected 'fixed', 'armijo' or 'wolfe'"
            )
        if self.tau is not None:
            check_positive("tau", self.tau)

    def step(
        self, system: System, z: Tensor, residual: Tensor, state: State
    ) -> tuple[Tensor, Tensor | None, State]:
        if self.step_rule == "fixed":
            tau = self.tau or 1 / (1 + (-system.strength).clamp(min=0) * system.eigenvalue)
            return z - tau * residual, None, state
        direction = -residual * (self.tau or 1.0)
        if self.step_rule == "wolfe":
            direction = self._grow(system, z, residual, direction)
        moved, after, *_ = line_search(system, z, residual, direction, halvings=60)
        return moved, after, state

    @staticmethod
    def _grow(system: System, z: Tensor, residual: Tensor, direction: Tensor) -> Tensor:
        """Doubles the step of a row while the energy still falls steeply at its end (the curvature
        condition, c_2 = 0.9)."""
        slope = (residual * direction).sum(-1, keepdim=True)
        for _ in range(10):
            end = (system.residual(z + direction) * direction).sum(-1, keepdim=True)
            steep = end < 0.9 * slope
            if not bool(steep.any()):
                break
            direction = torch.where(steep, 2 * direction, direction)
            slope = torch.where(steep, 2 * slope, slope)
        return direction
