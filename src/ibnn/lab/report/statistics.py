"""Numbers over seeds, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Literal

from ibnn.lab.experiments.experiment import Answer, Run

FEWEST_PAIRS = 5


def percent(value: float) -> str:
    """An accuracy for people.

    >>> percent(0.9035)
    '90.3 %'
    """
    return f"{100 * value:.1f} %"


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign; one that would read as zero keeps its first digit.

    >>> signed(1.24), signed(-0.004), signed(0.0)
    ('+1.2', '-0.004', '0.0')
    """
    text = f"{value:+.{digits}f}"
    if float(text):
        return text
    return f"{value:+.1g}" if value else text.lstrip("+-")


def spread(values: Sequence[float]) -> str:
    """Median and range of accuracies.

    >>> spread([0.5, 0.6, 0.9])
    '60.0 % (50.0 to 90.0)'
    """
    low, high = 100 * min(values), 100 * max(values)
    return f"{percent(median(values))} ({low:.1f} to {high:.1f})"


def median_run(runs: Sequence[Run]) -> Run:
    """The run with the median accuracy; the lower one of the two in the middle."""
    ordered = sorted(runs, key=lambda run: (run.result.accuracy, run.config.seed))
    return ordered[(len(ordered) - 1) // 2]


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
        """The difference of accuracies or shares, for people.

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
