"""Checks that compare attacks: a larger budget or more knowledge must not raise accuracy.

Two finite attacks may differ by a few images in either direction; an order is violated only where
the sign test says so (`stats.proportion.weaker`).
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from torch import Tensor

import ibnn
from ibnn.lab.attacks.checks.check import Check, Target
from ibnn.lab.attacks.noise import Noise, RandomSearch
from ibnn.lab.attacks.pgd import PGD, fgsm
from ibnn.lab.attacks.square import Square
from ibnn.lab.attacks.transfer import Transfer
from ibnn.lab.stats import percent
from ibnn.lab.stats.proportion import FALSE_ALARM, tail, weaker

CURVE = (0.0, 0.25, 0.5, 1.0, 2.0)  # radii, as multiples of eps
ADAPTIVE = 50  # images for gradients taken otherwise: unrolling is slow
MISSED = 0.01  # fraction of images an unbounded attack may fail to break


def falls_with_eps(target: Target) -> Check:
    """PGD at growing radii."""
    radii = [fraction * target.eps for fraction in CURVE]
    broken = {f"{eps:.4g}": target.broken(PGD(eps, norm=target.norm)) for eps in radii}
    return _ordered("accuracy falls with eps", target, broken, "eps")


def unbounded(target: Target) -> Check:
    """Within a ball that holds every image no image is safe: survivors mean masked gradients."""
    n = target.x[0].numel()
    eps = 1.0 if target.norm == "linf" else math.sqrt(n)
    everywhere = [PGD(eps, 50, eps / 10, loss, norm=target.norm) for loss in ("ce", "margin")]
    broken = target.broken(everywhere[0]) | target.broken(everywhere[1])
    left, count = int((target.right & ~broken).sum()), int(target.right.sum())
    return Check(
        "unbounded attacks reach zero",
        tail(left, count, MISSED) >= FALSE_ALARM,
        f"{left} of {count} images survive PGD at eps {eps:.3g}, where any image can become any "
        f"other (up to {percent(MISSED)} may be missed)",
        {"eps": eps, "survivors": left, "images": count},
    )


def more_steps(target: Target) -> Check:
    """10 and 40 steps, each with its own random start."""
    broken = {
        str(steps): target.broken(PGD(target.eps, steps, norm=target.norm), salt=steps)
        for steps in (10, 40)
    }
    return _ordered("more steps never help the defender", target, broken, "steps")


def more_restarts(target: Target) -> Check:
    """1 and 5 restarts, each with its own random starts."""
    broken = {
        str(count): target.broken(
            PGD(target.eps, restarts=count, norm=target.norm), salt=100 + count
        )
        for count in (1, 5)
    }
    return _ordered("more restarts never help the defender", target, broken, "restarts")


def iterative(target: Target) -> Check:
    """One step of the whole radius against ten small ones."""
    broken = {
        "one step": target.broken(fgsm(target.eps, norm=target.norm)),
        "ten steps": target.broken(PGD(target.eps, norm=target.norm)),
    }
    return _ordered("iterative at least as strong as one step", target, broken, "")


def white_box(target: Target) -> Check:
    """All attacks with gradients together against each attack without."""
    eps, norm = target.eps, target.norm
    white = target.broken(PGD(eps, norm=norm)) | target.broken(PGD(eps, loss="margin", norm=norm))
    others = {
        attack.name: target.broken(attack)
        for attack in (Noise(eps, norm=norm), RandomSearch(eps, 50, norm=norm))
    }
    if target.x.ndim == 4:
        others["square"] = target.broken(Square(eps, 100, norm=norm))
    if target.implicit:
        twin = Transfer(PGD(eps, norm=norm), ibnn.standard(target.model))
        others["transfer from the lam = 0 twin"] = target.broken(twin)
    few = slice(0, len(target.few_x))
    for attack, result in target.results:
        if attack.norm == norm:
            broken = target.right & (result.success & within(result.distance, eps))[few]
            if attack.uses_gradients:
                white = white | broken
            else:
                others[f"{attack.name} (of the table)"] = broken
    return _compared("white-box at least as strong as black-box", target, white, others)


def adaptive(target: Target) -> Check:
    """Gradients taken in other ways, each tried on the model itself."""
    name = "other gradients do no better"
    if not target.implicit:
        return Check(name, None, "the model has no implicit layer to differentiate otherwise")
    ways = {
        # the gradient solver: twenty cheap steps, where Newton's cost an energy each
        "unrolled": {"adjoint": "unrolled", "solver": "gradient", "max_steps": 20},
        "Jacobian-free": {"adjoint": "jfb"},
        "loose tolerance 1e-2": {"atol": 1e-2, "rtol": 1e-2},
        "tight tolerance 1e-8": {"atol": 1e-8, "rtol": 1e-8},
    }
    attack = PGD(target.eps, norm=target.norm)
    target = replace(target, sample=min(target.sample, ADAPTIVE))
    others = {
        way: target.broken(Transfer(attack, target.variant(**settings)))
        for way, settings in ways.items()
    }
    return _compared(name, target, target.broken(attack), others)


def within(distance: Tensor, eps: float) -> Tensor:
    """Inside the ball, but for rounding in float32: of x + change, whose values are at most 1, and
    of the length of a change, which is relative (a few times 6e-8) and counts for large l_2 balls.
    """
    return distance <= eps + 1e-6 * max(1.0, eps)


def _ordered(name: str, target: Target, broken: Mapping[str, Tensor], unit: str) -> Check:
    """Each attack of the list must be at least as strong as the one before it."""
    labels = list(broken)
    worst, pair = 1.0, ""
    for small, large in pairwise(labels):
        chance = weaker(broken[large], broken[small])
        if chance < worst:
            worst, pair = chance, f"{large} after {small}"
    accuracy = {label: target.accuracy(value) for label, value in broken.items()}
    told = ", ".join(f"{percent(value)} at {label}" for label, value in accuracy.items())
    passed = worst >= FALSE_ALARM
    note = ""
    if not passed:
        note = f"; {pair} is weaker (chance {worst:.1g})"
    elif any(after > before for before, after in pairwise(accuracy.values())):
        note = "; rises are within chance"
    numbers = {"accuracy": accuracy, "chance": worst, "images": len(target.few_x)}
    return Check(name, passed, f"accuracy {told} {unit}".rstrip() + note, numbers)


def _compared(name: str, target: Target, strong: Tensor, others: Mapping[str, Tensor]) -> Check:
    """One attack must be at least as strong as each of the others."""
    chances = {label: weaker(strong, broken) for label, broken in others.items()}
    accuracy = {label: target.accuracy(broken) for label, broken in others.items()}
    own = target.accuracy(strong)
    better = [label for label, chance in chances.items() if chance < FALSE_ALARM]
    best = min(accuracy, key=accuracy.__getitem__)
    sentence = f"robust accuracy {percent(own)}, against {percent(accuracy[best])} under the best "
    sentence += f"of the others ({best})"
    if better:
        sentence += f"; stronger: {', '.join(better)}"
    numbers = {"accuracy": own, "others": accuracy, "chances": chances}
    return Check(name, not better, sentence, {**numbers, "images": len(target.few_x)})
