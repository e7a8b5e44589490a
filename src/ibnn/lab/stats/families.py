"""How a family of paired comparisons is decided: Holm's correction, and equivalence."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ibnn.lab.results import Answer, Claim
from ibnn.lab.stats.paired import FEWEST_PAIRS, UNKNOWN, Paired

SIGNIFICANT = 0.05  # a corrected p below it decides
EQUIVALENT = 0.003  # of accuracy: an interval inside 0.3 points either way

Decision = Literal["better", "worse", "equivalent", "not decided"]


@dataclass(frozen=True)
class Judged:
    """A comparison "x minus y" within its family; `p` is corrected, None with too few pairs."""

    difference: Paired | None
    p: float | None
    decision: Decision

    @property
    def answer(self) -> Answer:
        """Whether "x is better than y" holds; equivalent is no better."""
        if self.decision == "not decided":
            return "not decided"
        return "yes" if self.decision == "better" else "no"

    def text(self, unit: str = "points", scale: float = 100.0, digits: int = 2) -> str:
        """The difference with its interval, pairs and corrected p."""
        if self.difference is None:
            return UNKNOWN
        mean, low, high = self.difference.signed(scale, digits)
        p = "" if self.p is None else f", p {p_text(self.p)}"
        return f"{mean} {unit} ({low} to {high}, {self.difference.count} pairs{p})"

    def claim(self, question: str, measured: str, **written: Any) -> Claim:
        """The answer as a claim: `measured` names the difference, which follows it."""
        return Claim(question, f"{measured}: {self.text(**written)}.", self.answer)


def judge(
    differences: Mapping[str, Paired | None], equivalent: float = EQUIVALENT
) -> dict[str, Judged]:
    """Decide a family: better or worse when Holm's p is below 0.05, else equivalent when the 95 %
    interval is inside `equivalent` either way (0: never), else not decided. Fewer than five pairs
    decide nothing; a comparison that is not known yet still counts in the correction.

    >>> judge({"a": Paired(0.02, 0.01, 0.03, 10), "b": Paired(0, -0.002, 0.002, 10)})["b"].decision
    'equivalent'
    """
    enough = {
        name: difference
        for name, difference in differences.items()
        if difference is not None and difference.count >= FEWEST_PAIRS
    }
    single = {name: p_value(enough[name]) if name in enough else 1.0 for name in differences}
    corrected = holm(single)
    judged = {name: Judged(found, None, "not decided") for name, found in differences.items()}
    for name, difference in enough.items():
        decision: Decision = "not decided"
        if corrected[name] < SIGNIFICANT:
            decision = "better" if difference.mean > 0 else "worse"
        elif -equivalent < difference.low and difference.high < equivalent:
            decision = "equivalent"
        judged[name] = Judged(difference, corrected[name], decision)
    return judged


def p_value(difference: Paired) -> float:
    """Two-sided p of Student's paired t, from the mean and its 95 % interval.

    >>> round(p_value(Paired(2.262, 0.0, 4.524, 10)), 3)
    0.05
    """
    from scipy.stats import t

    half = difference.high - difference.mean
    if half <= 0:
        return 1.0 if difference.mean == 0 else 0.0
    freedom = difference.count - 1
    statistic = difference.mean / half * float(t.ppf(0.975, freedom))
    return float(2 * t.sf(abs(statistic), freedom))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down correction: the smallest p times their number, the next times one less...

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    found: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(p, key=lambda name: p[name])):
        largest = max(largest, min(1.0, (len(p) - place) * p[name]))
        found[name] = largest
    return found


def p_text(p: float) -> str:
    """A p value for people; one below 0.05, which decides, is never written as 0.050.

    >>> p_text(0.0004), p_text(0.0123), p_text(0.04986), p_text(0.567)
    ('< 0.001', '0.012', '0.0498', '0.56')
    """
    if p < 0.001:
        return "< 0.001"
    if 0.0495 <= p < 0.05:
        return f"{math.floor(1e4 * p) / 1e4:.4f}"
    return f"{p:.3f}" if p < 0.1 else f"{math.floor(100 * p) / 100:.2f}"
