"""Intermediate states (Yang et al. 2022): gradients through iterates of an unfinished solve.

The exact implicit gradient is that of the solution. Where the solution saturates what follows, or
bends so sharply that its gradient misleads, the states an iteration passes on its way there need
not: "A closer look at the adversarial robustness of deep equilibrium models" attacks through them.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attacked
from ibnn.lab.attacks.best import Best
from ibnn.lab.attacks.losses import Climb, Loss, climb
from ibnn.lab.attacks.pgd import PGD
from ibnn.lab.models import implicit_layers
from ibnn.lab.training.ball import steepest
from ibnn.solver import Found, Solver
from ibnn.solver.base import judge


@dataclass(frozen=True)
class Unfinished(Solver):
    """z_n of the damped iteration z <- (1 - tau) z + tau (y - lam B(z)) from z_0 = y.

    tau = 1 / (1 + max(0, -lam) slope mu) is the largest step proven to descend: a state is on its
    way to the solution, never beyond it.
    """

    name: ClassVar[str] = "unfinished"
    approximate: ClassVar[bool] = True

    steps: int

    def find(self, system: Any, start: Tensor, max_steps: int) -> Found:
        tau = 1 / (1 + (-system.strength).clamp(min=0) * system.eigenvalue)
        z = start
        for _ in range(self.steps):
            z = z - tau * system.residual(z)
        taken = torch.full((len(z),), self.steps, dtype=torch.int32, device=z.device)
        return judge(system, z, system.residual(z), taken)


def stopped(model: nn.Module, steps: int) -> nn.Module:
    """A copy whose implicit layers give the state after so many steps; autograd unrolls them."""
    copied = copy.deepcopy(model)
    for layer in implicit_layers(copied):
        layer.solver, layer.adjoint, layer.on_failure = Unfinished(steps), "unrolled", "ignore"
    return copied


def through(surrogates: Sequence[nn.Module], exact: bool) -> Climb:
    """Logits and loss of the model itself, with the mean of the surrogates' gradients and, if
    `exact`, its own: each at length 1, since a state that saturates less has a larger one."""

    def climbing(
        model: nn.Module, images: Tensor, y: Tensor, loss: Loss
    ) -> tuple[Tensor, Tensor, Tensor]:
        gradients = [climb(surrogate, images, y, loss)[2] for surrogate in surrogates]
        if exact:
            logits, values, own = climb(model, images, y, loss)
            gradients.append(own)
        else:
            logits = model(images)
            values = loss(logits, y)
        total = sum((steepest("l2", one) for one in gradients), torch.zeros_like(images))
        return logits, values, total

    return climbing


@dataclass(frozen=True)
class IntermediateStates(PGD):
    """PGD whose gradients go through intermediate states; every image is judged by the model.

    Each restart is one run along the mean of all states' gradients and the exact one, and one run
    along each state's gradient alone. State 0 would be the lam = 0 twin (see `Transfer`); a network
    without implicit layers has no states but its own.

    Args:
        states: after how many steps of the damped iteration a solve is left.
    """

    states: tuple[int, ...] = (1, 2, 4, 8)

    kind: ClassVar[str] = "intermediate"
    needs_implicit: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.states or any(not isinstance(n, int) or n < 0 for n in self.states):
            raise ValueError(f"states is {self.states!r}, expected whole numbers of 0 or more")

    @property
    def name(self) -> str:
        loss = "" if self.loss == "ce" else f"-{self.loss}"
        return f"{self.kind}{loss}-{self.norm}"

    def passes(self, classes: int) -> int:
        # a step of the iteration is about a pass, its way back two, and each state is met twice
        states = 2 * sum(3 + 3 * state for state in self.states)
        return self.restarts * self.steps * (states + len(self.states) + 3)

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        surrogates = [stopped(model, state) for state in self.states]
        ways = [through(surrogates, exact=True)]
        ways += [through([surrogate], exact=False) for surrogate in surrogates]
        best = Best(x)
        for way in ways * self.restarts:
            start = self._start(x, generator)
            rows = best.rows(not self.early_stop)
            if len(rows):
                self._run(model, x, y, start, rows, best, way)
        return best.result(self.norm)
