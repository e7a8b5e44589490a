"""A check and what it found; and the target of all of them: a model, its images, its attacks."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.models import implicit_layers
from ibnn.lab.training.ball import Norm


@dataclass(frozen=True)
class Check:
    """One check: passed is None where it does not apply to this model; numbers are for JSON."""

    name: str
    passed: bool | None
    sentence: str
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return {True: "pass", False: "FAIL", None: "not applicable"}[self.passed]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.name}: {self.sentence}"


@dataclass
class Target:
    """A model in `eval` mode with the images it is judged on, and what attacks did to them.

    results: the attacks of the evaluation with their outcome on all images. The checks' own
    attacks take only the first `sample` images.
    """

    model: nn.Module
    x: Tensor
    y: Tensor
    eps: float
    norm: Norm
    results: Sequence[tuple[Attack, Attacked]] = ()
    seed: int = 0
    batch_size: int = 250
    sample: int = 200

    def __post_init__(self) -> None:
        self.few_x, self.few_y = self.x[: self.sample], self.y[: self.sample]
        self._done: dict[tuple[Attack, int], Attacked] = {}
        with torch.no_grad():
            parts = [self.model(part).argmax(1) for part in self.few_x.split(self.batch_size)]
        self.right = torch.cat(parts) == self.few_y

    @property
    def implicit(self) -> bool:
        """Whether some layer solves for an implicit bias."""
        return bool(implicit_layers(self.model))

    def attacked(self, attack: Attack, salt: int = 0) -> Attacked:
        """The attack on the sample; each salt has random numbers of its own."""
        if (attack, salt) not in self._done:
            generator = torch.Generator().manual_seed(self.seed + 7919 * salt)
            self._done[attack, salt] = attack(
                self.model, self.few_x, self.few_y, generator=generator, batch_size=self.batch_size
            )
        return self._done[attack, salt]

    def broken(self, attack: Attack, salt: int = 0) -> Tensor:
        """Which images of the sample were correct and are misclassified now."""
        return self.right & self.attacked(attack, salt).success

    def accuracy(self, broken: Tensor) -> float:
        """Of the sample, once these are broken."""
        return float((self.right & ~broken).double().mean())

    def variant(self, **settings: Any) -> nn.Module:
        """A copy whose implicit layers solve or differentiate otherwise (adjoint, atol, ...)."""
        copied = copy.deepcopy(self.model)
        for layer in implicit_layers(copied):
            for name, value in {"on_failure": "ignore", **settings}.items():
                setattr(layer, name, value)
        return copied

    def exact(self) -> nn.Module:
        """A copy in float64 that solves as well as it can."""
        settings = {"solver": "newton", "atol": None, "rtol": None, "max_steps": None}
        return self.variant(**settings).double()
