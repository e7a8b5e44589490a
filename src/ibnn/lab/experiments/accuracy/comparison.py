"""Two families of curves over the same x, one curve per seed, and what can be read off them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ibnn.lab.stats import (
    Band,
    Paired,
    band,
    median_curve,
    paired,
    percent,
    reaches,
    saving,
)

Curves = Mapping[int, Sequence[float]]  # by seed; nan where a run is missing


@dataclass(frozen=True)
class Match:
    """The dashed line of the paper's figures: the standard network's best, and when."""

    level: float  # the best of the standard networks' median curve
    standard: float  # x at which it has it
    implicit: float | None  # x at which the implicit networks' median curve reaches it
    seeds: Band | None  # the same for each implicit network on its own
    never: int  # implicit networks that do not reach it

    def medians(self, at: Callable[[float], str]) -> str:
        """Both median curves in a sentence; `at` writes an x with its preposition."""
        reached = "never" if self.implicit is None else at(self.implicit)
        return (
            f"Median curves: the standard one has its best, {percent(self.level)}, "
            f"{at(self.standard)}; the implicit one reaches that {reached}."
        )

    def singles(self, write: Callable[[float], str]) -> str:
        """The implicit networks one by one, in a sentence."""
        total = self.never + (self.seeds.count if self.seeds else 0)
        if self.seeds is None:
            return f"Of {total} single implicit networks none reaches it."
        missed = f"; {self.never} of {total} never" if self.never else ""
        return (
            f"Single implicit networks: median {write(self.seeds.median)}, 90 % band "
            f"{write(self.seeds.low)} to {write(self.seeds.high)}{missed}."
        )


@dataclass(frozen=True)
class Comparison:
    """Standard and implicit networks at every x."""

    xs: Sequence[float]
    standard: Curves
    implicit: Curves

    @property
    def is_empty(self) -> bool:
        """Whether one of the neurons has nothing to show."""
        return not (_whole(self.standard) and _whole(self.implicit))

    def difference(self, index: int) -> Paired | None:
        """Implicit minus standard at one x."""
        return paired(_at(self.implicit, index), _at(self.standard, index))

    def mean_difference(self) -> Paired | None:
        """Implicit minus standard, the mean over all x of each seed."""
        return paired(_means(self.implicit), _means(self.standard))

    def match(self) -> Match | None:
        """Where the implicit networks reach the standard networks' best."""
        if self.is_empty:
            return None
        standard = median_curve(_whole(self.standard))
        level = max(standard)
        implicit = _whole(self.implicit)
        single = [reaches(self.xs, curve, level) for curve in implicit.values()]
        found = [x for x in single if x is not None]
        return Match(
            level,
            self.xs[standard.index(level)],
            reaches(self.xs, median_curve(implicit), level),
            band(found) if found else None,
            len(single) - len(found),
        )

    def saving(self) -> Paired | None:
        """How much less x an implicit network needs than its standard twin for the highest level
        both reach: positive where it needs less."""
        return saving(self.xs, _whole(self.implicit), _whole(self.standard))


def _whole(curves: Curves) -> dict[int, Sequence[float]]:
    """The curves without a gap."""
    return {seed: c for seed, c in curves.items() if c and not any(map(math.isnan, c))}


def _at(curves: Curves, index: int) -> dict[int, float]:
    found = {seed: curve[index] for seed, curve in curves.items()}
    return {seed: value for seed, value in found.items() if not math.isnan(value)}


def _means(curves: Curves) -> dict[int, float]:
    return {seed: fmean(curve) for seed, curve in _whole(curves).items()}
