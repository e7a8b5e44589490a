"""What was measured on converted networks, by seed: differences, tables and the CSV."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, Literal

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.transfer.conversions import LAMBDAS, OLD, REFITTED, WAYS
from ibnn.lab.results import Answer, Table
from ibnn.lab.stats import FEWEST_PAIRS, Paired, paired, percent
from ibnn.lab.theory_checks.transfer.claims import COLUMNS

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


def tables(found: Conversions) -> list[Table]:
    return [
        _table(found, "accuracy", "Validation accuracy"),
        _table(found, "attacked", "Robust accuracy"),
        *([_margin_table(found)] if found.margins else []),
    ]


def _table(found: Conversions, reading: Reading, title: str) -> Table:
    def cell(way: str, lam: float) -> str:
        middle = percent(median(found.values(reading, way, lam).values()))
        change = found.difference(reading, way, lam)
        return f"{middle}; {change.short()}" if lam and change else middle

    return Table(
        f"{title}: median; and the mean change from λ = 0 with its 95 % interval, in points",
        ("λ", *(way.capitalize() for way in WAYS)),
        [(f"{lam:g}", *(cell(way, lam) for way in WAYS)) for lam in LAMBDAS],
    )


def _margin_table(found: Conversions) -> Table:
    every = list(found.margins.values())

    def middle(index: int, key: str) -> str:
        return f"{median(m['points'][index][key] for m in every):.3f}"

    rows = [
        {"λ": f"{lam:g}", **{name: middle(index, key) for name, key in COLUMNS.items()}}
        for index, lam in enumerate(LAMBDAS)
    ]
    return Table.of("Margins: median", rows)


def rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The CSV: one line for each seed, lam and way, and for each margin."""
    lines: list[dict[str, Any]] = []
    for run in runs:
        own = {"seed": run.config.seed, "run": run.result.identity}
        for point in run.measured["points"]:
            accuracies = {"accuracy": point["accuracy"], "robust_accuracy": point["attacked"]}
            lines.append({**own, "lam": point["lam"], "way": point["way"], **accuracies})
        margin = run.measured["margin"]
        for point in margin["points"] if margin else ():
            numbers = {key: point[key] for key in COLUMNS.values()}
            lines.append({**own, "lam": point["lam"], "way": "margin", **numbers})
    return lines
