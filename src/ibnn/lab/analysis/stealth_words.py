"""The sentences and tables of the stealth attack."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from ibnn.lab.analysis.unseen import TOLERANCE, counts, expected_largest
from ibnn.lab.experiments.experiment import Table

if TYPE_CHECKING:
    from ibnn.lab.analysis.stealth import Budget
    from ibnn.lab.analysis.stealth_outcome import Outcome


def about(shown: Sequence[Outcome], budget: Budget) -> list[str]:
    """What the attacks came to."""
    best = [o for o in shown if o.attack == "optimised"]
    plain = [o for o in shown if o.attack == "no threshold"]
    pool = best[0].changes.shape[1]

    def told(outcomes: Sequence[Outcome], what: Any) -> str:
        return ", ".join(f"{what(o)} ({o.label})" for o in outcomes)

    return [
        f"One added neuron flips its trigger and stays within {TOLERANCE:.0%} of its gain on all "
        f"{pool} verification examples in {told(best, lambda o: f'{o.unseen(pool):.0%}')} of "
        f"{budget.triggers} cases: {_verdict([o.unseen(pool) for o in best])}.",
        "The neuron without a threshold, on which the paper rests its argument, changes scores of "
        "the verification set by up to "
        f"{told(plain, lambda o: f'{median(o.largest):.2f}')} of the gain (median over triggers): "
        "it would be no stealth attack on a standard network either.",
        "What implicit neurons add is a small change everywhere, because a silent neuron still "
        f"pulls at the others: at most {told(best, lambda o: f'{o.leak:.1e}')} of the gain where "
        f"it is silent, and provably no more than {told(best, lambda o: f'{o.bound:.1e}')}. An "
        "owner who compares scores exactly sees that; the class of verification examples changes "
        "for "
        f"{told(best, lambda o: f'{o.relabelled:.2%}')}.",
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
            o.label,
            f"{o.attack}" + ("" if o.length == 1 else f", {o.length:g}x filter"),
            f"{float(o.flipped.double().mean()):.0%}",
            f"{median(o.largest):.1e}",
            f"{max(o.largest):.1e}",
            f"{o.leak:.1e} ({o.bound:.1e})",
            f"{o.unseen(o.changes.shape[1]):.0%}",
            f"{o.relabelled:.2%}",
        ]
        for o in outcomes
    ]
    columns = (
        "D",
        "network",
        "attack",
        "triggers flipped",
        "largest change / gain: median",
        "worst",
        "where silent (bound)",
        f"unseen at {TOLERANCE:.0%}",
        "classes changed",
    )
    return Table("One added neuron", columns, rows)


def rows(outcome: Outcome) -> list[dict[str, Any]]:
    """The curve of one attack, for the CSV."""
    return [
        {
            "units": outcome.units,
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
