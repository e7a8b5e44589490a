"""The sentences and tables of the stealth attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from ibnn.lab.analysis.unseen import TOLERANCE, counts, expected_largest
from ibnn.lab.results import Table
from ibnn.lab.stats import percent_short

if TYPE_CHECKING:
    from ibnn.lab.analysis.stealth import Budget
    from ibnn.lab.analysis.stealth_outcome import Outcome


LEARNT = 0.75  # of the training images answered right, of two classes: less is no network to attack


def about(shown: Sequence[Outcome], budget: Budget) -> list[str]:
    """What the attacks came to."""
    best = [o for o in shown if o.attack == "optimised"]
    plain = [o for o in shown if o.attack == "no threshold"]
    pool = best[0].changes.shape[1]

    implicit = [o for o in best if o.lam is not None]

    def told(outcomes: Sequence[Outcome], what: Callable[[Outcome], float]) -> str:
        return ", ".join(f"{percent_short(what(o))} ({o.weights})" for o in outcomes)

    return [
        f"{budget.triggers} triggers on networks of {best[0].units} hidden units, standard or "
        f"implicit with lam = {implicit[0].lam:.3g}, which get {percent_short(best[0].accuracy)} "
        f"and {percent_short(implicit[0].accuracy)} of their training images right. The attacker "
        f"has {budget.sample} training images and {budget.steps} gradient steps, the owner {pool} "
        "test images, the same for every network. Between the D + 1 units of the attacked network "
        "the weight is 1/D, as the paper writes, or 1/(D+1).",
        f"One added neuron flips its trigger and stays within {percent_short(TOLERANCE)} of its "
        f"gain on all {pool} verification images in {told(best, lambda o: o.unseen(pool))} of the "
        f"cases: {_verdict([o.unseen(pool) for o in best])}.",
        "The neuron without a threshold, on which the paper rests its argument, changes scores of "
        f"the verification set by up to {told(plain, lambda o: median(o.largest))} of the gain "
        "(median over triggers): it would be no stealth attack on a standard network either.",
        "What implicit neurons add is a small change everywhere, because a silent neuron still "
        f"pulls at the others: at most {told(implicit, lambda o: o.leak)} of the gain where it is "
        f"silent, and provably no more than {told(implicit, lambda o: o.bound)}; on a standard "
        "network nothing. An owner who compares scores exactly sees that. The class changes for "
        f"{told(best, lambda o: o.relabelled)} of the verification images.",
    ]


def unlearnt(outcomes: Sequence[Outcome]) -> list[str]:
    """Networks whose attack means nothing."""
    failed = {
        (o.units, "standard" if o.lam is None else "implicit"): o.accuracy
        for o in outcomes
        if o.accuracy < LEARNT
    }
    return [
        f"The {name} network of {units} units did not learn its task ({percent_short(accuracy)} of "
        "its training images right): its lines in the table mean nothing."
        for (units, name), accuracy in failed.items()
    ]


def _verdict(unseen: Sequence[float]) -> str:
    standard, *implicit = unseen
    if max(implicit) >= 0.5:
        return "the attack works on implicit networks too"
    if max(implicit) < 0.5 * standard:
        return "the implicit networks resist better than the standard one, with this budget"
    return "it mostly fails, whichever the neuron, with this budget"


def table(outcomes: Sequence[Outcome]) -> Table:
    """One line per attack and network."""
    rows = [
        [
            str(o.units),
            o.weights,
            o.attack + ("" if o.length == 1 else f", {o.length:g}x filter"),
            percent_short(float(o.flipped.double().mean())),
            percent_short(median(o.largest)),
            percent_short(max(o.largest)),
            percent_short(o.leak),
            percent_short(o.bound),
            percent_short(o.unseen(o.changes.shape[1])),
            percent_short(o.relabelled),
        ]
        for o in outcomes
    ]
    columns = (
        "D",
        "network",
        "attack",
        "flipped",
        "median",
        "worst",
        "silent",
        "bound",
        "unseen",
        "relabelled",
    )
    title = "One added neuron: largest change of a verification score, as a share of the gain"
    return Table(title, columns, rows)


def rows(outcome: Outcome) -> list[dict[str, Any]]:
    """The curve of one attack, for the CSV."""
    return [
        {
            "units": outcome.units,
            "accuracy": outcome.accuracy,
            "lam": outcome.lam,
            "weights": "1/D" if outcome.kept else "1/(D+1)",
            "attack": outcome.attack,
            "filter_length": outcome.length,
            "examples": n,
            "unseen": outcome.unseen(n),
            "expected_largest_change": fmean(expected_largest(c, n) for c in outcome.changes),
        }
        for n in counts(outcome.changes.shape[1])
    ]
