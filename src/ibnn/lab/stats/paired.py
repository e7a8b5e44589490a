"""Differences between two groups of seeds, pair by pair, and the sentences they decide."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from ibnn.lab.results import FEWEST_PAIRS, Answer, Claim
from ibnn.lab.stats.curves import needed_for_common_best
from ibnn.lab.stats.text import percent, signed

UNKNOWN = "not known yet"
Expected = Literal["more", "less"]


@dataclass(frozen=True)
class Paired:
    """The mean of paired differences with its 95 % confidence interval (Student's t).

    `first` and `second` are the means of both sides over the same pairs: their difference is
    `mean`, so that a sentence may name all three.
    """

    mean: float
    low: float
    high: float
    count: int
    first: float = math.nan
    second: float = math.nan

    def answer(self, expected: Expected) -> Answer:
        """Whether the difference is as a claim says: yes or no need five pairs and an interval
        that excludes zero.

        >>> Paired(0.1, 0.05, 0.15, 10).answer("more")
        'yes'
        """
        if self.count < FEWEST_PAIRS or self.low <= 0 <= self.high:
            return "not decided"
        return "yes" if (self.mean > 0) == (expected == "more") else "no"

    def text(self, unit: str = "points", scale: float = 100.0, digits: int = 2) -> str:
        """The difference for people, by default of accuracies or fractions.

        >>> Paired(0.1, 0.05, 0.15, 10).text()
        '+10.00 points (95 % interval +5.00 to +15.00, 10 pairs)'
        >>> Paired(2.0, 1.0, 3.0, 5).text("epochs", 1, 1)
        '+2.0 epochs (95 % interval +1.0 to +3.0, 5 pairs)'
        """
        mean, low, high = self.signed(scale, digits)
        return f"{mean} {unit} (95 % interval {low} to {high}, {self.count} pairs)"

    def short(self, scale: float = 100.0, digits: int = 2) -> str:
        """The same for a table whose heading says the rest.

        >>> Paired(0.1, 0.05, 0.15, 10).short()
        '+10.00 (+5.00 to +15.00)'
        """
        mean, low, high = self.signed(scale, digits)
        return f"{mean} ({low} to {high})"

    def signed(self, scale: float = 1.0, digits: int = 1) -> tuple[str, str, str]:
        """Mean and both ends, times `scale`, with their signs."""
        mean, low, high = (signed(scale * v, digits) for v in (self.mean, self.low, self.high))
        return mean, low, high


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Paired | None:
    """first - second over the seeds both have; None with fewer than two.

    >>> paired({0: 1.0, 1: 3.0}, {0: 0.0, 1: 0.0, 2: 9.0}).mean
    2.0
    """
    seeds = sorted(first.keys() & second.keys())
    if len(seeds) < 2:
        return None
    from scipy.stats import t

    differences = [first[seed] - second[seed] for seed in seeds]
    mean, count = fmean(differences), len(differences)
    half = float(t.ppf(0.975, count - 1)) * stdev(differences) / math.sqrt(count)
    sides = (fmean(group[seed] for seed in seeds) for group in (first, second))
    return Paired(mean, mean - half, mean + half, count, *sides)


def saving(
    xs: Sequence[float],
    ours: Mapping[int, Sequence[float]],
    theirs: Mapping[int, Sequence[float]],
) -> Paired | None:
    """How much less x our curve of a seed needs than theirs for the highest level both reach.

    >>> saving([1, 2, 3], dict.fromkeys((0, 1), [0, 4, 8]), dict.fromkeys((0, 1), [0, 2, 4])).mean
    1.0
    """
    seeds = ours.keys() & theirs.keys()
    needed = {seed: needed_for_common_best(xs, theirs[seed], ours[seed]) for seed in seeds}
    return paired(*({seed: pair[side] for seed, pair in needed.items()} for side in (0, 1)))


def difference(
    found: Paired | None, unit: str = "points", scale: float = 100.0, digits: int = 2
) -> str:
    """A paired difference for people, also one that is not known.

    >>> difference(None)
    'not known yet'
    """
    return found.text(unit, scale, digits) if found else UNKNOWN


def both_means(found: Paired | None) -> str:
    """Both accuracies and their difference, all three means over the same pairs.

    >>> both_means(Paired(0.25, 0.2, 0.3, 5, first=0.75, second=0.5))
    '75.0 % against 50.0 %, +25.00 points (95 % interval +20.00 to +30.00, 5 pairs)'
    """
    if found is None:
        return UNKNOWN
    return f"{percent(found.first)} against {percent(found.second)}, {found.text()}"


def decide(found: Paired | None, expected: Expected) -> Answer:
    """Whether a difference is as a claim says; not decided while there is none.

    >>> decide(None, "more")
    'not decided'
    """
    return found.answer(expected) if found else "not decided"


def sentence(found: Paired | None, text: str, more: str, less: str) -> str:
    """What a difference allows to be said: `text` with one of two words, or that it is open.

    >>> sentence(Paired(-2.0, -3.0, -1.0, 5), "it learns {} than the other", "faster", "slower")
    'it learns slower than the other'
    >>> sentence(None, "It learns {} than the other", "faster", "slower")
    'Whether it learns faster than the other is not decided'
    """
    answer = decide(found, "more")
    if answer == "not decided":
        whether = "Whether" if text[0].isupper() else "whether"
        return f"{whether} {text[0].lower()}{text[1:].format(more)} is not decided"
    return text.format(more if answer == "yes" else less)


def claim(
    paper: str,
    measured: str,
    found: Paired | None,
    expected: Expected = "more",
    *,
    ours: bool = False,
) -> Claim:
    """A claim that one difference decides; its numbers are kept beside the sentence."""
    numbers = (
        {"mean": found.mean, "low": found.low, "high": found.high, "pairs": found.count}
        if found
        else {}
    )
    return Claim(paper, measured, decide(found, expected), numbers, ours)
