"""Lite: one explicit step instead of a solve, for comparison and for speed."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ibnn.solver.base import Found, Solver, judge
from ibnn.solver.system import System


@dataclass(frozen=True)
class Lite(Solver):
    """z = y - lam B(y): the first order of the solution in lam, differentiated directly."""

    name: ClassVar[str] = "lite"
    max_steps: ClassVar[int] = 1
    approximate: ClassVar[bool] = True

    def find(self, system: System, start: Tensor, max_steps: int) -> Found:
        z = system.y - system.strength * system.bias(start)
        steps = z.new_ones(len(z)).int()
        with torch.no_grad():
            return judge(system, z, system.residual(z), steps)
