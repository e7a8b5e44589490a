"""What was measured on converted networks, by seed, and the differences the claims rest on."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, Literal

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.transfer.conversions import LAMBDAS, OLD, REFITTED
from ibnn.lab.results import Answer
from ibnn.lab.stats import FEWEST_PAIRS, Paired, paired

Reading = Literal["accuracy", "attacked"]
HEADS = ("margin_old_head", "margin_refitted")
KEPT = 0.01  # accuracy counts as kept if no more than this is lost


class Conversions:
    """The measurements of several seeds."""

    def __init__(self, runs: Sequence[Run]):
        self.measured: Mapping[int, Mapping[str, Any]] = {
            run.config.seed: run.measured for run in runs
        }
        self.margins: Mapping[int, Mapping[str, Any]] = {
            seed: values["margin"] for seed, values in self.measured.items() if values["margin"]
        }

    @property
    def first(self) -> Mapping[str, Any]:
        """The measurements of one seed: what is the same for all."""
        return next(iter(self.measured.values()))

    def values(self, reading: Reading, way: str, lam: float) -> dict[int, float]:
        """One number of each seed."""
        return {
            seed: point[reading]
            for seed, values in self.measured.items()
            for point in values["points"]
            if point["way"] == way and point["lam"] == lam
        }

    def difference(self, reading: Reading, way: str, lam: float) -> Paired | None:
        """Converted minus lam = 0 treated the same way; with the old head that is the unconverted
        network itself."""
        return paired(self.values(reading, way, lam), self.values(reading, way, 0.0))

    def between_lams(self, reading: Reading, way: str, lam: float, other: float) -> Paired | None:
        return paired(self.values(reading, way, lam), self.values(reading, way, other))

    def between_ways(self, reading: Reading, way: str, other: str) -> Paired | None:
        """One way minus another, the mean over all lam but 0."""
        return paired(self._mean(reading, way), self._mean(reading, other))

    def refit_alone(self, reading: Reading) -> Paired | None:
        """What a refitted head changes without any implicit bias."""
        return paired(self.values(reading, REFITTED, 0.0), self.values(reading, OLD, 0.0))

    def strongest_kept(self, way: str) -> float | None:
        """The most negative lam at which the median accuracy is kept, and so at every weaker one.

        Clean accuracy chooses it, so that the accuracy under attack there is no chosen maximum.
        """
        standard = median(self.values("accuracy", way, 0.0).values())
        best = None
        for lam in sorted((v for v in LAMBDAS if v < 0), reverse=True):
            if median(self.values("accuracy", way, lam).values()) < standard - KEPT:
                break
            best = lam
        return best

    def lowest_slack(self) -> float | None:
        """By how much margins exceed the bound at least, over all seeds and all lam but 0, where
        the bound is the margin itself."""
        found = [
            point[head] - point["bound_paper"]
            for values in self.margins.values()
            for point in values["points"]
            for head in HEADS
            if point["lam"]
        ]
        return min(found, default=None)

    def _mean(self, reading: Reading, way: str) -> dict[int, float]:
        every = [self.values(reading, way, lam) for lam in LAMBDAS if lam]
        return {seed: fmean(values[seed] for values in every) for seed in self.measured}


def kept(differences: Sequence[Paired | None]) -> Answer:
    """Whether accuracy is kept: yes if every 95 % interval lies above a loss of KEPT, no if one
    lies below it; five pairs are needed.

    >>> kept([Paired(-0.002, -0.004, 0.0, 5)])
    'yes'
    """
    known = [found for found in differences if found and found.count >= FEWEST_PAIRS]
    if any(found.high < -KEPT for found in known):
        return "no"
    every = len(known) == len(differences) > 0
    return "yes" if every and all(found.low > -KEPT for found in known) else "not decided"
