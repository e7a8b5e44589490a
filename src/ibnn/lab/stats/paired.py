"""Differences between two groups of seeds, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from ibnn.lab.results import Answer
from ibnn.lab.stats.text import signed

FEWEST_PAIRS = 5


@dataclass(frozen=True)
class Paired:
    """The mean of paired differences with its 95 % confidence interval (Student's t)."""

    mean: float
    low: float
    high: float
    count: int

    def answer(self, expected: Literal["more", "less"]) -> Answer:
        """Whether the difference is as a claim says: yes or no need five pairs and an interval
        that excludes zero.

        >>> Paired(0.1, 0.05, 0.15, 10).answer("more")
        'yes'
        """
        if self.count < FEWEST_PAIRS or self.low <= 0 <= self.high:
            return "not decided"
        return "yes" if (self.mean > 0) == (expected == "more") else "no"

    def percentage_points(self) -> str:
        """The difference of accuracies or fractions, for people.

        >>> Paired(0.1, 0.05, 0.15, 10).percentage_points()
        '+10.00 points (95 % interval +5.00 to +15.00, 10 pairs)'
        """
        mean, low, high = self.signed(100, 2)
        return f"{mean} points (95 % interval {low} to {high}, {self.count} pairs)"

    def signed(self, scale: float = 1.0, digits: int = 1) -> tuple[str, str, str]:
        """Mean and both ends, times `scale`, with their signs."""
        mean, low, high = (signed(scale * v, digits) for v in (self.mean, self.low, self.high))
        return mean, low, high


def decide(difference: Paired | None, expected: Literal["more", "less"]) -> Answer:
    """Whether a difference is as a claim says; not decided while there is none.

    >>> decide(None, "more")
    'not decided'
    """
    return difference.answer(expected) if difference else "not decided"


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Paired | None:
    """first - second over the seeds both have; None with fewer than two.

    >>> paired({0: 1.0, 1: 3.0}, {0: 0.0, 1: 0.0, 2: 9.0}).mean
    2.0
    """
    differences = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    if len(differences) < 2:
        return None
    from scipy.stats import t

    mean, count = fmean(differences), len(differences)
    half = float(t.ppf(0.975, count - 1)) * stdev(differences) / math.sqrt(count)
    return Paired(mean, mean - half, mean + half, count)
