"""Checks that compare attacks: a larger budget or more knowledge must not help the defender.

Two finite attacks may differ by a few images in either direction; an order is violated only where
the sign test says so (`stats.proportion.weaker`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from torch import Tensor

import ibnn
from ibnn.lab.attacks.checks.check import Check, Subject, percent
from ibnn.lab.attacks.noise import Noise, RandomSearch
from ibnn.lab.attacks.pgd import PGD, fgsm
from ibnn.lab.attacks.square import Square
from ibnn.lab.attacks.transfer import Transfer
from ibnn.lab.stats.proportion import LEVEL, tail, weaker

CURVE = (0.0, 0.25, 0.5, 1.0, 2.0)  # radii, as multiples of eps
ADAPTIVE = 50  # images for gradients taken otherwise: unrolling is slow
MISSED = 0.01  # fraction of images an unbounded attack may fail to break


def falls_with_eps(subject: Subject) -> Check:
    """PGD at growing radii."""
    radii = [fraction * subject.eps for fraction in CURVE]
    broken = {f"{eps:.4g}": subject.broken(PGD(eps, norm=subject.norm)) for eps in radii}
    return _ordered("accuracy falls with eps", subject, broken, "eps")


def unbounded(subject: Subject) -> Check:
    """Within a ball that holds every image, no image is safe: whoever survives hides."""
    n = subject.x[0].numel()
    eps = 1.0 if subject.norm == "linf" else math.sqrt(n)
    everywhere = [PGD(eps, 50, eps / 10, loss, norm=subject.norm) for loss in ("ce", "margin")]
    broken = subject.broken(everywhere[0]) | subject.broken(everywhere[1])
    left, count = int((subject.right & ~broken).sum()), int(subject.right.sum())
    return Check(
        "unbounded attacks reach zero",
        tail(left, count, MISSED) >= LEVEL,
        f"{left} of {count} images survive PGD at eps {eps:.3g}, where any image can become any "
        f"other (up to {percent(MISSED)} may be missed)",
        {"eps": eps, "survivors": left, "images": count},
    )


def more_steps(subject: Subject) -> Check:
    """10 and 40 steps, each with its own random start."""
    broken = {
        str(steps): subject.broken(PGD(subject.eps, steps, norm=subject.norm), salt=steps)
        for steps in (10, 40)
    }
    return _ordered("more steps never help the defender", subject, broken, "steps")


def more_restarts(subject: Subject) -> Check:
    """1 and 5 restarts, each with its own random starts."""
    broken = {
        str(count): subject.broken(
            PGD(subject.eps, restarts=count, norm=subject.norm), salt=100 + count
        )
        for count in (1, 5)
    }
    return _ordered("more restarts never help the defender", subject, broken, "restarts")


def iterative(subject: Subject) -> Check:
    """One step of the whole radius against ten small ones."""
    broken = {
        "one step": subject.broken(fgsm(subject.eps, norm=subject.norm)),
        "ten steps": subject.broken(PGD(subject.eps, norm=subject.norm)),
    }
    return _ordered("iterative at least as strong as one step", subject, broken, "")


def white_box(subject: Subject) -> Check:
    """All attacks with gradients together against each attack without."""
    eps, norm = subject.eps, subject.norm
    white = subject.broken(PGD(eps, norm=norm)) | subject.broken(PGD(eps, loss="margin", norm=norm))
    others = {
        attack.name: subject.broken(attack)
        for attack in (Noise(eps, norm=norm), RandomSearch(eps, 50, norm=norm))
    }
    if subject.x.ndim == 4:
        others["square"] = subject.broken(Square(eps, 100, norm=norm))
    if subject.implicit:
        twin = Transfer(PGD(eps, norm=norm), ibnn.standard(subject.model))
        others["transfer from the lam = 0 twin"] = subject.broken(twin)
    few = slice(0, len(subject.few_x))
    for attack, result in subject.results:
        if attack.norm == norm:
            broken = subject.right & (result.success & within(result.distance, eps))[few]
            if attack.uses_gradients:
                white = white | broken
            else:
                others[f"{attack.name} (of the table)"] = broken
    return _compared("white-box at least as strong as black-box", subject, white, others)


def adaptive(subject: Subject) -> Check:
    """Gradients taken in other ways, each tried on the model itself."""
    name = "other gradients do no better"
    if not subject.implicit:
        return Check(name, None, "the model has no implicit layer to differentiate otherwise")
    ways = {
        # the gradient solver: twenty cheap steps, where Newton's cost an energy each
        "unrolled": {"adjoint": "unrolled", "solver": "gradient", "max_steps": 20},
        "Jacobian-free": {"adjoint": "jfb"},
        "loose tolerance 1e-2": {"atol": 1e-2, "rtol": 1e-2},
        "tight tolerance 1e-8": {"atol": 1e-8, "rtol": 1e-8},
    }
    attack = PGD(subject.eps, norm=subject.norm)
    subject = replace(subject, sample=min(subject.sample, ADAPTIVE))
    others = {
        way: subject.broken(Transfer(attack, subject.variant(**settings)))
        for way, settings in ways.items()
    }
    return _compared(name, subject, subject.broken(attack), others)


def within(distance: Tensor, eps: float) -> Tensor:
    """Inside the ball, but for the rounding of x + change in float32."""
    return distance <= eps + 1e-6


def _ordered(name: str, subject: Subject, broken: Mapping[str, Tensor], unit: str) -> Check:
    """Each attack of the list must be at least as strong as the one before it."""
    labels = list(broken)
    worst, pair = 1.0, ""
    for small, large in pairwise(labels):
        chance = weaker(broken[large], broken[small])
        if chance < worst:
            worst, pair = chance, f"{large} after {small}"
    accuracy = {label: subject.accuracy(value) for label, value in broken.items()}
    told = ", ".join(f"{percent(value)} at {label}" for label, value in accuracy.items())
    passed = worst >= LEVEL
    blame = "" if passed else f"; {pair} is weaker (chance {worst:.1g})"
    numbers = {"accuracy": accuracy, "chance": worst, "images": len(subject.few_x)}
    return Check(name, passed, f"accuracy {told} {unit}".rstrip() + blame, numbers)


def _compared(name: str, subject: Subject, strong: Tensor, others: Mapping[str, Tensor]) -> Check:
    """One attack must be at least as strong as each of the others."""
    chances = {label: weaker(strong, broken) for label, broken in others.items()}
    accuracy = {label: subject.accuracy(broken) for label, broken in others.items()}
    own = subject.accuracy(strong)
    better = [label for label, chance in chances.items() if chance < LEVEL]
    best = min(accuracy, key=accuracy.__getitem__)
    sentence = f"{percent(own)} are left, against {percent(accuracy[best])} by the best of the "
    sentence += f"others ({best})"
    if better:
        sentence += f"; stronger: {', '.join(better)}"
    numbers = {"accuracy": own, "others": accuracy, "chances": chances}
    return Check(name, not better, sentence, {**numbers, "images": len(subject.few_x)})
