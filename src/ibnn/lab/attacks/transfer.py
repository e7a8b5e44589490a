"""Transfer: attack a surrogate with its own gradients, judge the images on the model."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.attacks.apgd import APGD
from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.frozen import frozen
from ibnn.lab.attacks.pgd import PGD
from ibnn.lab.training.ball import Norm


@dataclass(frozen=True)
class Transfer(Attack):
    """An attack that never sees the model's gradients, only those of a surrogate.

    The surrogate is attacked to the last step whether or not it is wrong already: an image that
    only just fools it seldom fools another model. This is how the paper attacked its networks,
    with their lam = 0 twin, and it must be shown beside a white-box attack, never instead of it.

    Args:
        attack: PGD or APGD.
        surrogate: the network whose gradients are used; `ibnn.standard(model)`, the twin without
            implicit biases, when absent.
    """

    attack: PGD | APGD
    surrogate: nn.Module | None = None
    norm: Norm = field(init=False)
    eps: float = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.attack, PGD | APGD):
            raise TypeError(f"attack is a {type(self.attack).__name__}, expected PGD or APGD")
        object.__setattr__(self, "norm", self.attack.norm)
        object.__setattr__(self, "eps", self.attack.eps)

    def applies(self, implicit: bool) -> bool:
        # the twin of a standard network is that network
        return implicit or self.surrogate is not None

    @property
    def name(self) -> str:
        return f"transfer({self.attack.name})"

    def passes(self, classes: int) -> int:
        return self.attack.passes(classes)

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        surrogate = ibnn.standard(model) if self.surrogate is None else self.surrogate
        with frozen(surrogate):
            tried = replace(self.attack, early_stop=False)._attack(surrogate, x, y, generator)
        # One query: the verdict. What the surrogate was asked costs its owner nothing.
        return replace(tried, queries=torch.ones_like(y))
