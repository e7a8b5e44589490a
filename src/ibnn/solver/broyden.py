"""Broyden's method with limited memory: a secant model of J^-1, built from the steps taken."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ibnn._checks import check_whole
from ibnn.solver.base import Iteration, State
from ibnn.solver.system import System


@dataclass(frozen=True)
class Broyden(Iteration):
    """d = -H r with H = I + sum_m u_m v_m^T, the "good" update; the oldest pair goes first.

    Each row restarts from H = I when its residual grows tenfold.

    Args:
        memory: how many pairs u, v are kept.
    """

    name: ClassVar[str] = "broyden"
    max_steps: ClassVar[int] = 200

    memory: int = 20

    def __post_init__(self) -> None:
        check_whole("memory", self.memory, 1)

    def begin(self, system: System, z: Tensor, residual: Tensor) -> State:
        pairs = z.new_zeros(len(z), self.memory, z.shape[-1])
        return {"left": pairs, "right": pairs, "size": residual.norm(dim=-1)}

    def step(
        self, system: System, z: Tensor, residual: Tensor, state: State
    ) -> tuple[Tensor, Tensor | None, State]:
        left, right = state["left"], state["right"]
        move = -_apply(left, right, residual)
        after = system.residual(z + move)
        change = after - residual
        # H' = H + (s - H dr) (s^T H) / (s^T H dr)
        transformed = _apply(left, right, change)
        row = _apply(right, left, move)
        pivot = (move * transformed).sum(-1, keepdim=True)
        usable = pivot.abs() > torch.finfo(z.dtype).eps * move.square().sum(-1, keepdim=True)
        update = torch.where(usable, (move - transformed) / torch.where(usable, pivot, 1), 0)
        left = torch.cat([left[:, 1:], update[:, None]], 1)
        right = torch.cat([right[:, 1:], row[:, None]], 1)
        size = after.norm(dim=-1)
        sane = (size <= 10 * state["size"])[:, None, None]
        left, right = torch.where(sane, left, 0), torch.where(sane, right, 0)
        return z + move, after, {"left": left, "right": right, "size": size}


def _apply(left: Tensor, right: Tensor, vector: Tensor) -> Tensor:
    return vector + (left * (right @ vector.unsqueeze(-1))).sum(1)
