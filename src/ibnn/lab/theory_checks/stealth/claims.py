"""What the measurements say about stealth attacks: claims, notes, table, rows."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from ibnn.lab.results import Answer, Claim, Table
from ibnn.lab.stats import percent_short
from ibnn.lab.theory_checks.stealth.verification import (
    TOLERANCE,
    AttackResult,
    counts,
    expected_largest,
)

LEARNED = 0.75  # training accuracy of two classes: below, there is no network to attack


def claims(results: Sequence[AttackResult]) -> list[Claim]:
    """The paper's conclusion, and the step of its argument that is to tell the neurons apart."""
    return [
        _unfeasible([r for r in results if r.attack == "optimized"]),
        _noticed([r for r in results if r.attack == "no threshold"]),
    ]


def _unfeasible(best: Sequence[AttackResult]) -> Claim:
    standard, implicit = _split(best)
    works = max(r.undetected() for r in implicit)
    agrees: Answer = "not decided"
    if works >= 0.5:
        agrees = "no"
    elif works == 0 and standard.undetected() >= 0.5:
        agrees = "yes"
    return Claim(
        "Single-neuron stealth attacks on an IBNN are unfeasible.",
        f"One added neuron flips its trigger and stays within {percent_short(TOLERANCE)} of its "
        f"gain on all {standard.pool} verification images in "
        f"{_each(best, lambda r: r.undetected())} of the cases.",
        agrees,
    )


def _noticed(plain: Sequence[AttackResult]) -> Claim:
    standard, implicit = _split(plain)
    seen = [r.typical > TOLERANCE for r in implicit]
    agrees: Answer = "not decided"
    if standard.typical > TOLERANCE or not any(seen):
        agrees = "no"  # the same on both networks
    elif all(seen):
        agrees = "yes"
    return Claim(
        "An added neuron without a threshold is noticed on an IBNN, and not on a standard network.",
        "It changes scores of the verification set by up to "
        f"{_each(plain, lambda r: r.typical)} of its gain (median over triggers).",
        agrees,
    )


def notes(results: Sequence[AttackResult]) -> list[str]:
    """What the best attack leaves to be seen."""
    best = [r for r in results if r.attack == "optimized"]
    broken = [r.network for r in best if r.leak > r.bound * (1 + 1e-6)]
    kept = f"exceeded on {', '.join(broken)}" if broken else "never exceeded"
    return [
        "Largest change of a score where the added neuron is inactive, as a fraction of the gain: "
        f"{_each(best, lambda r: r.leak)}. The proven bound, "
        f"{_each(best, lambda r: r.bound)}, is {kept}.",
        f"The class changes for {_each(best, lambda r: r.relabeled)} of the verification images.",
    ]


def not_learned(results: Sequence[AttackResult]) -> list[str]:
    """Networks whose attack means nothing."""
    failed = {
        (r.units, "standard" if r.lam is None else "implicit"): r.accuracy
        for r in results
        if r.accuracy < LEARNED
    }
    return [
        f"The {name} network of {units} units did not learn its task ({percent_short(accuracy)} of "
        "its training images right): its lines in the table mean nothing."
        for (units, name), accuracy in failed.items()
    ]


def _split(results: Sequence[AttackResult]) -> tuple[AttackResult, list[AttackResult]]:
    """The standard network, and the implicit ones."""
    standard = next(r for r in results if r.lam is None)
    return standard, [r for r in results if r.lam is not None]


def _each(results: Sequence[AttackResult], value: Callable[[AttackResult], float]) -> str:
    return ", ".join(f"{percent_short(value(r))} ({r.network})" for r in results)


def table(results: Sequence[AttackResult]) -> Table:
    rows = [
        {
            "D": str(r.units),
            "network": r.network,
            "attack": r.attack + ("" if r.length == 1 else f", {r.length:g}x filter"),
            "flipped": percent_short(float(r.flipped.double().mean())),
            "median": percent_short(r.typical),
            "worst": percent_short(max(r.largest)),
            "silent": percent_short(r.leak),
            "bound": percent_short(r.bound),
            "undetected": percent_short(r.undetected()),
            "relabeled": percent_short(r.relabeled),
        }
        for r in results
    ]
    title = "One added neuron: largest change of a verification score, as a fraction of the gain"
    return Table.of(title, rows)


def rows(result: AttackResult) -> list[dict[str, Any]]:
    """The curve of one attack, for the CSV."""
    return [
        {
            "units": result.units,
            "accuracy": result.accuracy,
            "lam": result.lam,
            "weights": "1/(D+1)" if result.rescaled else "1/D",
            "attack": result.attack,
            "filter_length": result.length,
            "examples": n,
            "undetected": result.undetected(n),
            "expected_largest_change": fmean(expected_largest(c, n) for c in result.changes),
        }
        for n in counts(result.pool)
    ]
