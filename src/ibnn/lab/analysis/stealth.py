"""Stealth attack: one neuron is added to a trained network; does the owner notice?"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from ibnn.lab.analysis import stealth_words as words
from ibnn.lab.analysis.attacked import Victim
from ibnn.lab.analysis.expressivity import lam_of
from ibnn.lab.analysis.one_hidden import OneHidden, train, two_classes
from ibnn.lab.analysis.preactivations import layers_of
from ibnn.lab.analysis.section import Progress, Section, Subject
from ibnn.lab.analysis.stealth_attack import ATTACKS, Plan
from ibnn.lab.analysis.stealth_figures import draw
from ibnn.lab.analysis.unseen import TOLERANCE, chance_unseen
from ibnn.lab.experiments.experiment import Picture


@dataclass(frozen=True)
class Budget:
    """The same for every network."""

    triggers: int
    sample: int
    steps: int
    training: int
    pool: int
    units: tuple[int, ...]
    lengths: tuple[float, ...]


QUICK = Budget(6, 120, 30, 80, 150, (64,), (1.0,))
FULL = Budget(10, 200, 60, 150, 300, (16, 64), (1.0, 10.0))


@dataclass(frozen=True)
class Outcome:
    """One attack on one network, all triggers."""

    lam: float | None
    kept: bool
    units: int
    length: float
    attack: str
    flipped: Tensor  # (T,) whether the trigger's class is the attacker's
    changes: Tensor  # (T, pool) of |s_a - s| / gain
    relabelled: float  # share of pool examples whose class changes
    leak: float  # largest change (over the gain) of an example on which the neuron is silent
    bound: float  # on that: the proven one, over the smallest gain

    @property
    def label(self) -> str:
        if self.lam is None:
            return "standard"
        return f"λ = {self.lam:.3g}, {'1/D' if self.kept else '1/(D+1)'}"

    @property
    def largest(self) -> list[float]:
        """Per trigger, over the whole pool."""
        return self.changes.amax(1).tolist()

    def unseen(self, examples: int, tolerance: float = TOLERANCE) -> float:
        """Chance, over triggers and draws, that an attack that flips its trigger goes unseen."""
        pairs = zip(self.flipped.tolist(), self.changes, strict=True)
        return fmean(ok * chance_unseen(c, examples, tolerance) for ok, c in pairs)


def section(subject: Subject, progress: Progress) -> Section | None:
    """The attack on networks trained here, of the subject's data, lam and slope."""
    layers = layers_of(subject.network, subject.twin, subject.x[:1])
    lam, slope = lam_of(layers), float(layers[0].slope.max())
    budget = QUICK if subject.quick else FULL
    outcomes: list[Outcome] = []
    victims = [(units, chosen) for units in budget.units for chosen in (None, lam)]
    for done, (units, chosen) in enumerate(victims):
        name = "standard" if chosen is None else "implicit"
        progress(done, len(victims), f"stealth attack, {units} {name} units")
        outcomes += attack_network(subject, chosen, slope, units, budget)
    progress(len(victims), len(victims), "")
    shown = [o for o in outcomes if o.units == max(budget.units)]
    shown = [o for o in shown if o.length == 1.0]
    return Section(
        "stealth",
        "Stealth attack",
        words.about(shown, budget),
        [
            Picture(
                "stealth",
                draw(shown, TOLERANCE),
                f"One neuron is added to a network of {shown[0].units} hidden units so that a "
                "trigger changes class. Left: chance that the owner sees no score of the "
                f"verification set move by more than {TOLERANCE:.0%} of the attack's gain. Right: "
                "share of attacks of which nothing is seen in the whole pool, against the owner's "
                "tolerance; thin line: the bound while the added neuron is silent.",
            )
        ],
        [words.table(outcomes)],
        [row for outcome in outcomes for row in words.rows(outcome)],
    )


def attack_network(
    subject: Subject, lam: float | None, slope: float, units: int, budget: Budget
) -> list[Outcome]:
    """Train one network, attack it in every way, with both weights between D + 1 units."""
    x, y = two_classes(subject.dataset, 2 * budget.sample, subject.seed)
    held, _ = two_classes(subject.dataset, budget.triggers + budget.pool, subject.seed, "test")
    x, held = x.flatten(1), held.flatten(1)
    triggers, pool = held[: budget.triggers], held[budget.triggers :]
    network = OneHidden(x.shape[1], units, lam, slope, seed=subject.seed)
    train(network, x, y, budget.training)
    found = []
    for kept in (True,) if lam is None else (True, False):
        victim = Victim.of(network, kept)
        gain = wanted_gain(victim, triggers, x)
        for length in budget.lengths:
            plan = Plan(triggers, gain, x[: budget.sample], budget.steps, length)
            for name in ATTACKS:
                found.append(_outcome(victim, plan, name, pool))
    return found


def wanted_gain(victim: Victim, triggers: Tensor, x: Tensor) -> Tensor:
    """Enough to move each trigger to the other class, as surely as a typical example is."""
    score = victim.score(triggers)
    sign = torch.where(score > 0, -1.0, 1.0).to(score)
    return sign * (score.abs() + victim.score(x).abs().median())


def _outcome(victim: Victim, plan: Plan, name: str, pool: Tensor) -> Outcome:
    """Attack in float32, judge in float64: changes can be far below a score's rounding."""
    neuron = ATTACKS[name](victim, plan).to(torch.float64)
    exact, triggers, gain = victim.double(), plan.triggers.double(), plan.gain.double()
    neuron = exact.aimed(triggers, gain, neuron)
    seen = exact.see(pool.double())
    own, added = exact.respond(seen, neuron)
    change, before = own + neuron.out.unsqueeze(1) * torch.relu(added), exact.score(pool.double())
    at_trigger = exact.change(exact.see(triggers.unsqueeze(1)), neuron)[:, 0]
    clean = exact.score(triggers)
    return Outcome(
        victim.lam,
        victim.kept,
        victim.units,
        plan.length,
        name,
        ((clean + at_trigger > 0) != (clean > 0)),
        (change / gain.unsqueeze(1)).abs(),
        float(((before + change > 0) != (before > 0)).double().mean()),
        float((torch.where(added < 0, own, 0.0) / gain.unsqueeze(1)).abs().max()),
        victim.leak_bound() / float(gain.abs().min()),
    )
