"""Section: one neuron is added to a trained network; does the owner notice?"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ibnn.lab.results import Picture
from ibnn.lab.stats import percent_short
from ibnn.lab.theory_checks.check import Context, Progress, Section
from ibnn.lab.theory_checks.layers import LayerState, capture, representative_lam
from ibnn.lab.theory_checks.one_hidden import OneHidden, binary_task, train
from ibnn.lab.theory_checks.stealth import claims
from ibnn.lab.theory_checks.stealth.attacks import ATTACKS, Plan
from ibnn.lab.theory_checks.stealth.figures import draw
from ibnn.lab.theory_checks.stealth.network import Victim
from ibnn.lab.theory_checks.stealth.verification import TOLERANCE, AttackResult, Owner


@dataclass(frozen=True)
class Budget:
    """The same for every network."""

    triggers: int
    sample: int  # training images the attacker has
    steps: int  # of gradient the attacker takes
    training: int  # steps of the network
    pool: int  # verification examples of the owner
    units: tuple[int, ...]
    # Filters longer than the network's own, tried on the widest one; only optimized, for otherwise
    # the longer one with the smaller output weight is almost the same neuron.
    longer: tuple[float, ...]


QUICK = Budget(6, 120, 15, 80, 150, (8,), ())
FULL = Budget(10, 200, 30, 150, 300, (8, 64), (10.0,))  # 60 steps of the attacker come to the same


def section(context: Context, progress: Progress) -> Section:
    """The attack on networks trained here, of the network's data, lam, slope and sigma."""
    first = capture(context.network, context.standard, context.x[:1])
    lam = representative_lam(first)
    budget = QUICK if context.quick else FULL
    results: list[AttackResult] = []
    victims = [(units, chosen) for units in budget.units for chosen in (None, lam)]
    for done, (units, chosen) in enumerate(victims):
        name = "standard" if chosen is None else "implicit"
        progress(done, len(victims), f"stealth attack, {units} {name} units")
        results += attack_network(context, chosen, first[0], units, budget)
    progress(len(victims), len(victims), "done")
    shown = [r for r in results if r.units == max(budget.units) and r.length == 1]
    tolerance = percent_short(TOLERANCE)
    return Section(
        name="stealth",
        title="Stealth attack: one added neuron",
        claims=claims.claims(shown),
        notes=[
            f"{budget.triggers} triggers on networks of {shown[0].units} hidden units with λ = "
            f"{lam:.3g}. The attacker has {budget.sample} training images and {budget.steps} "
            f"gradient steps, the owner {shown[0].pool} test images, the same for every network. "
            "Between the D + 1 units of the attacked network the weight is 1/D, as the paper "
            "writes, or 1/(D+1).",
            *claims.notes(shown),
            *claims.not_learned(results),
        ],
        pictures=[
            Picture(
                "stealth",
                draw(shown, TOLERANCE),
                f"One neuron is added to a network of {shown[0].units} hidden units so that a "
                "trigger changes class. Left: probability that the owner sees no score of the "
                f"verification set move by more than {tolerance} of the attack's gain. Right: "
                "attacks of which nothing is seen in the whole pool, against the owner's "
                "tolerance; thin vertical lines: the bounds while the added neuron is inactive; "
                f"dotted: {tolerance}.",
            )
        ],
        tables=[claims.table(results)],
        rows=[row for result in results for row in claims.rows(result)],
    )


def attack_network(
    context: Context, lam: float | None, like: LayerState, units: int, budget: Budget
) -> list[AttackResult]:
    """Train one network, attack it in every way, with both weights between D + 1 units."""
    x, y = binary_task(context.dataset, 2 * budget.sample, context.seed)
    held, _ = binary_task(context.dataset, budget.triggers + budget.pool, context.seed, "test")
    x, held = x.flatten(1), held.flatten(1)
    triggers, pool = held[: budget.triggers], held[budget.triggers :]
    slope = float(like.slope.max())
    network = OneHidden(x.shape[1], units, lam, slope, like.sigma, seed=context.seed)
    accuracy = train(network, x, y, budget.training)
    found = []
    for rescaled in (False,) if lam is None else (False, True):
        attacks = [(name, 1.0) for name in ATTACKS]
        if not rescaled and units == max(budget.units):
            attacks += [("optimized", length) for length in budget.longer]
        victim = Victim.of(network, rescaled)
        gain = wanted_gain(victim, triggers, x)
        owner = Owner(victim, accuracy, triggers, gain, pool)
        for name, length in attacks:
            plan = Plan(triggers, gain, x[: budget.sample], budget.steps, length)
            found.append(owner.judge(ATTACKS[name](victim, plan), name, length))
    return found


def wanted_gain(victim: Victim, triggers: Tensor, x: Tensor) -> Tensor:
    """Enough to move each trigger to the other class, as surely as a typical example is."""
    score = victim.score(triggers)
    sign = torch.where(score > 0, -1.0, 1.0).to(score)
    return sign * (score.abs() + victim.score(x).abs().median())
