"""How a family of paired comparisons is decided: Holm's correction, and equivalence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ibnn.lab.stats import FEWEST_PAIRS, Paired

LEVEL = 0.05
EQUIVALENT = 0.003  # of accuracy: an interval inside 0.3 points either way

Outcome = Literal["better", "worse", "equivalent", "not decided"]


@dataclass(frozen=True)
class Judged:
    """A comparison "x minus y" within its family; `p` is corrected, None with too few pairs."""

    difference: Paired | None
    p: float | None
    outcome: Outcome

    def text(self, unit: str = "points", scale: float = 100.0, digits: int = 2) -> str:
        """The difference with its interval, pairs and corrected p."""
        if self.difference is None:
            return "not known yet"
        mean, low, high = self.difference.signed(scale, digits)
        p = "" if self.p is None else f", p {p_text(self.p)}"
        return f"{mean} {unit} ({low} to {high}, {self.difference.count} pairs{p})"


def judge(differences: Mapping[str, Paired | None]) -> dict[str, Judged]:
    """Decide a family: better or worse when Holm's p is below 0.05, else equivalent when the 95 %
    interval is inside 0.3 points, else not decided. Fewer than five pairs decide nothing; a
    comparison that is not known yet still counts in the correction.

    >>> judge({"a": Paired(0.02, 0.01, 0.03, 10), "b": Paired(0.0, -0.002, 0.002, 10)})["b"].outcome
    'equivalent'
    """
    enough = {
        name: difference is not None and difference.count >= FEWEST_PAIRS
        for name, difference in differences.items()
    }
    single = {
        name: p_value(difference) if difference is not None and enough[name] else 1.0
        for name, difference in differences.items()
    }
    corrected = holm(single)
    judged = {}
    for name, difference in differences.items():
        if difference is None or not enough[name]:
            judged[name] = Judged(difference, None, "not decided")
        else:
            p = corrected[name]
            judged[name] = Judged(difference, p, _outcome(difference, p))
    return judged


def _outcome(difference: Paired, p: float) -> Outcome:
    if p < LEVEL:
        return "better" if difference.mean > 0 else "worse"
    if difference.low > -EQUIVALENT and difference.high < EQUIVALENT:
        return "equivalent"
    return "not decided"


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
    """A p value for people.

    >>> p_text(0.0004), p_text(0.0123), p_text(0.567)
    ('< 0.001', '0.012', '0.56')
    """
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{math.floor(100 * p) / 100:.2f}"
