"""Stealth attack: one neuron is added to a trained network; does the owner notice?"""

from __future__ import annotations

from dataclasses import dataclass

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
from ibnn.lab.analysis.stealth_outcome import Outcome, Owner
from ibnn.lab.analysis.unseen import TOLERANCE
from ibnn.lab.results import Picture
from ibnn.lab.stats import percent_short


@dataclass(frozen=True)
class Budget:
    """The same for every network."""

    triggers: int
    sample: int
    steps: int
    training: int
    pool: int
    units: tuple[int, ...]
    # Filters longer than the network's own, tried on the widest one; only optimised, for otherwise
    # the longer one with the smaller output weight is almost the same neuron.
    longer: tuple[float, ...]


QUICK = Budget(6, 120, 15, 80, 150, (8,), ())
FULL = Budget(10, 200, 30, 150, 300, (8, 64), (10.0,))  # 60 steps come to the same


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
        [*words.about(shown, budget), *words.unlearnt(outcomes)],
        [
            Picture(
                "stealth",
                draw(shown, TOLERANCE),
                f"One neuron is added to a network of {shown[0].units} hidden units so that a "
                "trigger changes class. Left: chance that the owner sees no score of the "
                f"verification set move by more than {percent_short(TOLERANCE)} of the attack's "
                "gain. Right: share of attacks of which nothing is seen in the whole pool, against "
                "the owner's tolerance; thin vertical lines: the bounds while the added neuron is "
                f"silent; dotted: {percent_short(TOLERANCE)}.",
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
    accuracy = train(network, x, y, budget.training)
    found = []
    for kept in (True,) if lam is None else (True, False):
        ways = [(name, 1.0) for name in ATTACKS]
        if kept and units == max(budget.units):
            ways += [("optimised", length) for length in budget.longer]
        victim = Victim.of(network, kept)
        gain = wanted_gain(victim, triggers, x)
        owner = Owner(victim, accuracy, triggers, gain, pool)
        for name, length in ways:
            plan = Plan(triggers, gain, x[: budget.sample], budget.steps, length)
            found.append(owner.judge(ATTACKS[name](victim, plan), name, length))
    return found


def wanted_gain(victim: Victim, triggers: Tensor, x: Tensor) -> Tensor:
    """Enough to move each trigger to the other class, as surely as a typical example is."""
    score = victim.score(triggers)
    sign = torch.where(score > 0, -1.0, 1.0).to(score)
    return sign * (score.abs() + victim.score(x).abs().median())
