"""What a solver is, and the loop shared by those that iterate: each row stops by itself, and the
best iterate of each row is what comes back."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ibnn.solver.system import System

# What an iteration carries from step to step: tensors with one entry per row.
State = dict[str, Tensor]


@dataclass
class Found:
    """The best iterate of each row, its largest residual, that as a multiple of the one allowed
    (solved: at most 1), and the steps it took."""

    z: Tensor
    residual: Tensor
    excess: Tensor
    steps: Tensor

    def rows(self, chosen: Tensor) -> "Found":
        return Found(self.z[chosen], self.residual[chosen], self.excess[chosen], self.steps[chosen])

    def updated(self, rows: Tensor, other: "Found") -> "Found":
        """With these rows replaced by `other`'s, whose steps come on top."""
        return Found(
            self.z.index_copy(0, rows, other.z),
            self.residual.index_copy(0, rows, other.residual),
            self.excess.index_copy(0, rows, other.excess),
            self.steps.index_add(0, rows, other.steps),
        )


def judge(system: System, z: Tensor, residual: Tensor, steps: Tensor) -> Found:
    residual = residual.detach()
    return Found(z, residual.abs().amax(-1), system.excess(z, residual), steps)


class Solver:
    """Finds z for every row of a system. Options are fields of a (frozen) dataclass."""

    name: ClassVar[str]
    max_steps: ClassVar[int] = 100
    # a solver that does not try to reach the tolerance is not reported for missing it
    approximate: ClassVar[bool] = False

    def find(self, system: System, start: Tensor, max_steps: int) -> Found:
        """The best z of every row, and how good it is.

        Args:
            system: the equations, in units where sigma has slope 1.
            start: where to begin, (rows, units).
            max_steps: steps at most.
        """
        raise NotImplementedError

    @property
    def allows_engine(self) -> bool:
        """Whether an engine (`ibnn.engine`) may find the same solution in this solver's place."""
        return False


class Iteration(Solver):
    """A solver that improves z step by step."""

    def begin(self, system: System, z: Tensor, residual: Tensor) -> State:
        """What is carried from step to step, by name: tensors with one entry per row. Rows for
        which "exhausted" is true take no further step.

        Args:
            system: the equations.
            z: where the iteration begins.
            residual: of the equations at z.
        """
        return {}

    def step(
        self, system: System, z: Tensor, residual: Tensor, state: State
    ) -> tuple[Tensor, Tensor | None, State]:
        """The next z, its residual if it is known already, and the state. A row that cannot be
        improved comes back unchanged.

        Args:
            system: the equations of the rows that are not solved yet.
            z: the latest iterate.
            residual: of the equations at z.
            state: what `begin` or the step before returned, of the same rows.
        """
        raise NotImplementedError

    def find(self, system: System, start: Tensor, max_steps: int) -> Found:
        device = start.device.type
        if not torch.is_autocast_enabled(device):
            return self._iterate(system, start, max_steps)
        # products of matrices would be rounded to half precision
        with torch.autocast(device, enabled=False):
            return self._iterate(system, start, max_steps)

    def _iterate(self, system: System, start: Tensor, max_steps: int) -> Found:
        everything, z, residual = system, start, system.residual(start)
        active = torch.arange(len(z), device=z.device)
        none = torch.zeros(len(z), dtype=torch.int32, device=z.device)
        best = judge(system, z, residual, none)
        state = self.begin(system, z, residual)
        going = best.excess > 1
        for _ in range(max_steps):
            if not bool(going.all()):
                kept = going.nonzero().squeeze(-1)  # a device is waited for once, not at each mask
                active = active[kept]
                system = everything.rows(active)
                z, residual = z[kept], residual[kept]
                state = {name: value[kept] for name, value in state.items()}
            if not len(active):
                break
            moved, known, state = self.step(system, z, residual, state)
            stuck = (moved == z).all(-1)
            z, residual = moved, system.residual(moved) if known is None else known
            now = judge(system, z, residual, none[active])
            best.steps = best.steps.index_add(0, active, none[active] + 1)
            better = now.excess < best.excess[active]
            best = best.updated(active[better], now.rows(better))
            going = (now.excess > 1) & now.excess.isfinite() & ~stuck
            if "exhausted" in state:
                going = going & ~state["exhausted"]
        if everything.differentiable and max_steps > 0:
            # the derivative lags one step behind the value: give it that step
            residual = everything.residual(best.z)
            state = self.begin(everything, best.z, residual)
            moved, _, _ = self.step(everything, best.z, residual, state)
            now = judge(everything, moved, everything.residual(moved), best.steps)
            kept = now.excess <= best.excess.clamp(min=1)
            best.z = torch.where(kept.unsqueeze(-1), moved, best.z)
            best.residual = torch.where(kept, now.residual, best.residual)
        return best
