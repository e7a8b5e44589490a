"""Newton's method on the energy: directions by conjugate gradients, steps that never climb."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ibnn._checks import check_flag, check_positive, check_whole
from ibnn.solver.base import Found, Iteration, State
from ibnn.solver.linear import conjugate_gradients
from ibnn.solver.system import System


@dataclass(frozen=True)
class Newton(Iteration):
    """J d = -r, then z + t d with t = 1, 1/2, 1/4, ... until the energy has fallen.

    Below the threshold the energy is strictly convex, so this finds the one solution from
    anywhere; above it, it finds one of them. Where an engine serves the case, it finds the
    same solution faster and is asked instead.

    Args:
        linear_rtol: conjugate gradients stop at this fraction of the residual.
        linear_steps: their steps at most.
        halvings: of t at most.
        budget: sums over pairs (each a residual, an energy or a product with J) after which a row
            stops where it is.
        use_engine: whether an engine may solve in its place.
    """

    name: ClassVar[str] = "newton"
    max_steps: ClassVar[int] = 60

    linear_rtol: float = 1e-3
    linear_steps: int = 200
    halvings: int = 40
    budget: int = 2000
    use_engine: bool = True

    def __post_init__(self) -> None:
        check_positive("linear_rtol", self.linear_rtol)
        for name in ("linear_steps", "halvings", "budget"):
            check_whole(name, getattr(self, name), 1)
        check_flag("use_engine", self.use_engine)

    def find(self, system: System, start: Tensor, max_steps: int) -> Found:
        return self._reconsider(system, super().find(system, start, max_steps))

    @property
    def allows_engine(self) -> bool:
        return self.use_engine

    @torch.no_grad()
    def _reconsider(self, system: System, found: Found) -> Found:
        """Counts rows as solved whose residual is nothing but the rounding of z seen through J."""
        unsolved = (~(found.excess <= 1)).nonzero().squeeze(-1)
        if len(unsolved):
            part, z = system.rows(unsolved), found.z[unsolved]
            residual = part.residual(z)
            multiple = part.excess_of_step(z, residual, self._direction(part, z, residual)[0])
            found.excess = found.excess.index_copy(
                0, unsolved, torch.minimum(multiple, found.excess[unsolved])
            )
        return found

    def begin(self, system: System, z: Tensor, residual: Tensor) -> State:
        return {"spent": torch.zeros(len(z), dtype=torch.int32, device=z.device)}

    def step(
        self, system: System, z: Tensor, residual: Tensor, state: State
    ) -> tuple[Tensor, Tensor | None, State]:
        direction, products = self._direction(system, z, residual)
        moved, after, energy, sums = line_search(
            system, z, residual, direction, self.halvings, state.get("energy")
        )
        # a last step below the accuracy asked for: the row is done (see `_reconsider`)
        if not system.differentiable:
            done = (system.excess_of_step(z, residual, direction) <= 1).unsqueeze(-1)
            moved, after = torch.where(done, z, moved), torch.where(done, residual, after)
        spent = state["spent"] + products + sums
        state = {"spent": spent, "exhausted": spent > self.budget}
        return moved, after, state if energy is None else {**state, "energy": energy}

    def _direction(self, system: System, z: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Newton's direction, and the products with J that each row took."""
        if system.differentiable_solve is not None:
            # the derivatives of conjugate gradients are not those of the solution it approaches
            direction = system.differentiable_solve(z, -residual, system.strength.squeeze(-1))
            return direction, torch.zeros(len(z), dtype=torch.int32, device=z.device)
        jacobian, diagonal = system.linearised(z)
        return conjugate_gradients(
            jacobian, -residual, diagonal, self.linear_rtol, self.linear_steps
        )


def line_search(
    system: System,
    z: Tensor,
    residual: Tensor,
    direction: Tensor,
    halvings: int,
    energy: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """z + t * direction with the first t = 1, 1/2, ... that lowers the energy, its residual, its
    energy if that was needed for every row, (rows, 2), the energy and the size of its terms, and
    the sums over pairs that each row took.

    Two tests that need no energy come first: on a convex energy it is enough that the slope along
    the direction is still downhill at the new point, or that the residual shrank by more than the
    condition number of J can hide. `energy` is that of z, where it is known.
    """
    eps = torch.finfo(z.dtype).eps
    slope = (residual * direction).sum(-1)
    size = residual.norm(dim=-1)
    convex = system.convex()
    enough = size / (2 * system.condition_bound().sqrt())
    moved, found = z, residual
    lowered = z.new_full((len(z), 2), torch.nan)
    pending = torch.arange(len(z), device=z.device)
    sums = torch.zeros(len(z), dtype=torch.int32, device=z.device)
    length = 1.0
    for _ in range(halvings):
        part = system if len(pending) == len(z) else system.rows(pending)
        trial = z[pending] + length * direction[pending]
        after = part.residual(trial)
        sums[pending] += 1
        downhill = (after * direction[pending]).sum(-1) <= 0
        accepted = convex[pending] & (downhill | (after.norm(dim=-1) <= enough[pending]))
        if not bool(accepted.all()):
            if energy is None:
                energy = system.energy(z)
            now = part.energy(trial)
            sums[pending] += 1
            before, terms = energy[pending].unbind(-1)
            fell = now[:, 0] <= before + 1e-4 * length * slope[pending] + 4 * eps * terms
            accepted = accepted | fell
            lowered = lowered.index_copy(0, pending[accepted], now[accepted])
        moved = moved.index_copy(0, pending[accepted], trial[accepted])
        found = found.index_copy(0, pending[accepted], after[accepted])
        pending = pending[~accepted]
        if not len(pending):
            break
        length /= 2
    return moved, found, None if bool(lowered.isnan().any()) else lowered, sums
