"""The owner's side of a stealth attack: what it changes, judged on a verification set."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from ibnn.lab.analysis.attacked import Neuron, Victim
from ibnn.lab.analysis.unseen import TOLERANCE, chance_unseen


@dataclass(frozen=True)
class Outcome:
    """One attack on one network, all triggers."""

    lam: float | None
    kept: bool
    units: int
    accuracy: float  # of the network before the attack, on its training examples
    length: float
    attack: str
    flipped: Tensor  # (T,) whether the trigger's class is the attacker's
    changes: Tensor  # (T, pool) of |s_a - s| / gain
    relabelled: float  # share of pool examples whose class changes
    leak: float  # largest change (over the gain) where the neuron is silent; NaN: nowhere
    bound: float  # on that: the proven one, over the smallest gain

    @property
    def label(self) -> str:
        if self.lam is None:
            return "standard"
        return f"λ = {self.lam:.3g}, {'1/D' if self.kept else '1/(D+1)'}"

    @property
    def weights(self) -> str:
        """As `label`, without the lam."""
        if self.lam is None:
            return "standard"
        return "implicit, 1/D" if self.kept else "implicit, 1/(D+1)"

    @property
    def largest(self) -> list[float]:
        """Per trigger, over the whole pool."""
        return self.changes.amax(1).tolist()

    def unseen(self, examples: int, tolerance: float = TOLERANCE) -> float:
        """Chance, over triggers and draws, that an attack that flips its trigger goes unseen."""
        pairs = zip(self.flipped.tolist(), self.changes, strict=True)
        return fmean(ok * chance_unseen(c, examples, tolerance) for ok, c in pairs)


class Owner:
    """Looks at one network before and after attacks, in float64: changes can be far below the
    rounding of a score."""

    def __init__(
        self, victim: Victim, accuracy: float, triggers: Tensor, gain: Tensor, pool: Tensor
    ) -> None:
        self._accuracy = accuracy
        self._victim, self._gain = victim.double(), gain.double()
        self._triggers = self._victim.see(triggers.double().unsqueeze(1))
        self._clean = self._victim.score_of(self._triggers)[:, 0]
        self._pool = self._victim.see(pool.double())
        self._before = self._victim.score_of(self._pool)

    def judge(self, neuron: Neuron, attack: str, length: float) -> Outcome:
        """One attack, aimed once more in float64."""
        victim, gain, before = self._victim, self._gain.unsqueeze(1), self._before
        neuron = victim.aimed_at(self._triggers, self._gain, neuron.to(torch.float64))
        own, added = victim.respond(self._pool, neuron)
        change = own + neuron.out.unsqueeze(1) * torch.relu(added)
        silent = added < 0
        attacked = self._clean + victim.change(self._triggers, neuron)[:, 0]
        return Outcome(
            victim.lam,
            victim.kept,
            victim.units,
            self._accuracy,
            length,
            attack,
            (attacked > 0) != (self._clean > 0),
            (change / gain).abs(),
            float(((before + change > 0) != (before > 0)).double().mean()),
            float((own / gain).abs()[silent].max()) if bool(silent.any()) else float("nan"),
            victim.leak_bound() / float(gain.abs().min()),
        )
