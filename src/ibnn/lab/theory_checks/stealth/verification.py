"""The owner's side of a stealth attack: what it changes, and how likely that goes unseen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import torch
from torch import Tensor

from ibnn.lab.theory_checks.stealth.network import AddedNeuron, Victim

TOLERANCE = 0.01  # of the gain: what the owner does not call a change


def undetected_probability(changes: Tensor, examples: int, tolerance: float) -> float:
    """Probability that `examples` drawn from the pool all change by at most `tolerance`.

    Exact, by counting: C(N - m, n) / C(N, n), with m of the N changes above the tolerance.

    >>> import torch
    >>> round(undetected_probability(torch.tensor([0.0, 0.0, 0.0, 1.0]), 2, 0.1), 6)
    0.5
    """
    pool = len(changes)
    if not 1 <= examples <= pool:
        raise ValueError(f"examples is {examples}, expected 1 to {pool}, the size of the pool")
    harmless = pool - int((changes.abs() > tolerance).sum())
    return math.comb(harmless, examples) / math.comb(pool, examples)


def expected_largest(changes: Tensor, examples: int) -> float:
    """Mean of the largest |change| among `examples` drawn from the pool, exact.

    >>> import torch
    >>> round(expected_largest(torch.tensor([1.0, 2.0, 3.0]), 2), 6)
    2.666667
    """
    ordered = changes.abs().double().sort().values.tolist()
    total = math.comb(len(ordered), examples)
    # the one of this rank is the largest if the others come from below it
    chances = (math.comb(rank, examples - 1) / total for rank in range(len(ordered)))
    return math.fsum(chance * value for chance, value in zip(chances, ordered, strict=True))


def counts(pool: int) -> Sequence[int]:
    """Numbers of verification examples to look at, up to the whole pool."""
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
    return [*(n for n in steps if n < pool), pool]


@dataclass(frozen=True)
class AttackResult:
    """One attack on one network, all triggers."""

    lam: float | None
    rescaled: bool
    units: int
    accuracy: float  # of the network before the attack, on its training examples
    length: float  # of the added filter, in lengths of the network's longest
    attack: str
    flipped: Tensor  # (T,) whether the trigger's class is the attacker's
    changes: Tensor  # (T, pool) of |s_a - s| / gain
    relabeled: float  # fraction of pool examples whose class changes
    leak: float  # largest change (over the gain) where the neuron is silent; NaN: nowhere
    bound: float  # on that: the proven one, over the smallest gain

    @property
    def network(self) -> str:
        """Which neuron, and which weight between D + 1 units."""
        if self.lam is None:
            return "standard"
        return "implicit, 1/(D+1)" if self.rescaled else "implicit, 1/D"

    @property
    def pool(self) -> int:
        return self.changes.shape[1]

    @property
    def largest(self) -> list[float]:
        """Change of a score, per trigger, over the whole pool."""
        return self.changes.amax(1).tolist()

    @property
    def typical(self) -> float:
        """The median of these."""
        return median(self.largest)

    def undetected(self, examples: int | None = None, tolerance: float = TOLERANCE) -> float:
        """Probability, over triggers and draws of examples (default: the whole pool), that an
        attack flips its trigger and no drawn score moves by more than the tolerance."""
        drawn = examples or self.pool
        pairs = zip(self.flipped.tolist(), self.changes, strict=True)
        return fmean(ok * undetected_probability(c, drawn, tolerance) for ok, c in pairs)


class Owner:
    """Looks at one network before and after attacks, in float64: changes can be far below the
    rounding of a score."""

    def __init__(
        self, victim: Victim, accuracy: float, triggers: Tensor, gain: Tensor, pool: Tensor
    ) -> None:
        self._accuracy = accuracy
        self._victim, self._gain = victim.double(), gain.double()
        self._triggers = self._victim.respond(triggers.double().unsqueeze(1))
        self._clean = self._victim.score_of(self._triggers)[:, 0]
        self._pool = self._victim.respond(pool.double())
        self._before = self._victim.score_of(self._pool)

    def judge(self, neuron: AddedNeuron, attack: str, length: float) -> AttackResult:
        """One attack, aimed once more in float64."""
        victim, gain, before = self._victim, self._gain.unsqueeze(1), self._before
        neuron = victim.aimed_at(self._triggers, self._gain, neuron.to(torch.float64))
        own, added = victim.attacked(self._pool, neuron)
        change = own + neuron.out.unsqueeze(1) * torch.relu(added)
        silent = added < 0
        attacked = self._clean + victim.change(self._triggers, neuron)[:, 0]
        return AttackResult(
            victim.lam,
            victim.rescaled,
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
