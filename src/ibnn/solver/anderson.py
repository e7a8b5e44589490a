"""Anderson acceleration: Picard's iteration, mixed from its last few iterates."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ibnn._checks import check_at_least_0, check_whole
from ibnn.solver.base import Iteration, State
from ibnn.solver.system import System


@dataclass(frozen=True)
class Anderson(Iteration):
    """The combination of the last `memory` iterates whose residual is smallest, then a step.

    The least-squares problem is solved through its normal equations with a small ridge: at most
    `memory` x `memory`, whatever the size of the row.

    Args:
        memory: how many iterates are mixed.
        ridge: added to the diagonal of the normal equations, relative to their largest entry.
    """

    name: ClassVar[str] = "anderson"
    max_steps: ClassVar[int] = 200

    memory: int = 5
    ridge: float = 1e-10

    def __post_init__(self) -> None:
        check_whole("memory", self.memory, 1)
        check_at_least_0("ridge", self.ridge)

    def begin(self, system: System, z: Tensor, residual: Tensor) -> State:
        history = z.new_zeros(len(z), self.memory, z.shape[-1])
        count = torch.zeros(len(z), dtype=torch.long, device=z.device)
        return {
            "moves": history,
            "changes": history,
            "last_z": z,
            "last_r": residual,
            "count": count,
        }

    def step(
        self, system: System, z: Tensor, residual: Tensor, state: State
    ) -> tuple[Tensor, Tensor | None, State]:
        moves, changes, count = state["moves"], state["changes"], state["count"]
        if int(count[0]) > 0:  # rows start together, so they have the same past
            moves = torch.cat([moves[:, 1:], (z - state["last_z"])[:, None]], 1)
            changes = torch.cat([changes[:, 1:], (residual - state["last_r"])[:, None]], 1)
        gram = changes @ changes.transpose(1, 2)
        size = gram.diagonal(dim1=1, dim2=2).amax(-1, keepdim=True)
        ridge = (self.ridge * size + torch.finfo(z.dtype).tiny).unsqueeze(-1)
        identity = torch.eye(self.memory, dtype=z.dtype, device=z.device)
        # unused slots are zero rows: they get a one on the diagonal and no weight
        empty = (gram.diagonal(dim1=1, dim2=2) == 0).to(z.dtype)
        right = (changes @ residual.unsqueeze(-1)).squeeze(-1)
        mix, _ = torch.linalg.solve_ex(gram + ridge * identity + torch.diag_embed(empty), right)
        corrected = z - (mix.unsqueeze(1) @ moves).squeeze(1)
        leftover = residual - (mix.unsqueeze(1) @ changes).squeeze(1)
        new = {
            "moves": moves,
            "changes": changes,
            "last_z": z,
            "last_r": residual,
            "count": count + 1,
        }
        return corrected - leftover, None, new
