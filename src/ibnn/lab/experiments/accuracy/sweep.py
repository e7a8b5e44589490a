"""Both neurons side by side over some values: the frame of the paper's accuracy figures."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.accuracy.figures import Axis, draw_comparison, draw_lam
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.lam_modes import LamMode, lam_mode
from ibnn.lab.experiments.protocol import protocol
from ibnn.lab.experiments.readings import (
    amounts,
    best_accuracy,
    finished,
    median_lam,
    never_learnt,
    readings,
    run_row,
)
from ibnn.lab.results import Claim, Findings, Picture, Table
from ibnn.lab.stats import UNKNOWN, Paired, band, paired, percent
from ibnn.lab.training import Result, RunConfig


@dataclass(frozen=True)
class Point:
    """The networks trained at one value of the x axis, by seed."""

    value: float
    standard: Mapping[int, Run]
    implicit: Mapping[int, Run]

    @property
    def runs(self) -> list[Run]:
        return [*self.standard.values(), *self.implicit.values()]

    def difference(self) -> Paired | None:
        """Best accuracy, implicit minus standard, over the seeds both have."""
        return paired(readings(self.implicit), readings(self.standard))


class Sweep(ImageExperiment):
    """Standard and implicit networks with equal seeds at every value of something."""

    column: ClassVar[str]  # the value's name, in the CSV
    label: ClassVar[str]  # of the x axis
    shows: ClassVar[str]  # the figure's title
    caption: ClassVar[str]
    reads_match: ClassVar[bool] = False  # whether the standard best is marked, and where it is met

    @abstractmethod
    def values(self, settings: Settings) -> Sequence[float]:
        """The values that are trained."""

    @abstractmethod
    def at(self, config: RunConfig, value: float) -> RunConfig:
        """The run at one of those values."""

    @abstractmethod
    def describe(self, value: float) -> str:
        """A value for readers: "40 % of the data"."""

    @abstractmethod
    def headline(self, comparison: Comparison, points: Sequence[Point]) -> str:
        """The finding in a sentence or two."""

    @abstractmethod
    def claims(self, comparison: Comparison, points: Sequence[Point]) -> list[Claim]:
        """The table "paper says / measured here"."""

    def axis(self, points: Sequence[Point]) -> Axis:
        """By default values are fractions, drawn in %."""
        return Axis(self.label, lambda x: f"{x:.0f} %", [100 * point.value for point in points])

    def compare(self, axis: Axis, points: Sequence[Point]) -> Comparison:
        """By default the best accuracy of every network over the points."""
        return Comparison(
            axis.ticks or (),
            _curves([point.standard for point in points]),
            _curves([point.implicit for point in points]),
        )

    def tables(self, points: Sequence[Point]) -> list[Table]:
        return [self._table(points)]

    def check(self, settings: Settings) -> None:
        super().check(settings)
        self.mode(settings)

    def mode(self, settings: Settings) -> LamMode:
        return lam_mode(settings.lam, self.base(settings, neuron="implicit"))

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        mode = self.mode(settings)
        known: list[RunConfig] = []
        for value in self.values(settings):
            known += self._standard(settings, value).values()
            for implicit in self._implicit(settings, value).values():
                known += mode.runs(implicit, results)
        return known

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        points = self.points(settings, runs)
        compared = [run for point in points for run in point.runs] or runs
        axis = self.axis(points)
        comparison = self.compare(axis, points)
        match = comparison.match() if self.reads_match else None
        figure = draw_comparison(comparison, axis, self.shows, _note(compared), match)
        return Findings(
            headline=self.headline(comparison, points),
            pictures=[Picture(self.name, figure, self.caption), self.lam_picture(points)],
            claims=self.claims(comparison, points),
            rows=self.rows(points),
            tables=self.tables(points),
            notes=never_learnt(
                (run.config.title(), [line.accuracy for line in run.validations()])
                for run in compared
            ),
            settings=self.settings_lines(settings, compared, runs),
        )

    def points(self, settings: Settings, runs: Sequence[Run]) -> list[Point]:
        """The finished runs by value, neuron and seed; runs that only helped to find lam aside."""
        results = {run.config.identity(): run.result for run in runs}
        mode, points = self.mode(settings), []
        for value in self.values(settings):
            implicit = {
                seed: mode.compared(config, results)
                for seed, config in self._implicit(settings, value).items()
            }
            standard = finished(self._standard(settings, value), runs)
            points.append(Point(value, standard, finished(implicit, runs)))
        return points

    def lam_picture(self, points: Sequence[Point]) -> Picture:
        """lam of every implicit network over its epochs."""
        groups = {self.describe(p.value): list(p.implicit.values()) for p in points}
        caption = "λ of every network (pale) over the epochs, and the median of each group."
        return Picture("lam", draw_lam(groups), caption)

    def rows(self, points: Sequence[Point]) -> list[dict[str, object]]:
        return [run_row(run, **{self.column: p.value}) for p in points for run in p.runs]

    def settings_lines(
        self, settings: Settings, compared: Sequence[Run], runs: Sequence[Run]
    ) -> list[tuple[str, str]]:
        """How the runs that are compared were trained; all runs say how lam was found."""
        results = {run.config.identity(): run.result for run in runs}
        return protocol(compared, lam=self.mode(settings).about(results))

    def _table(self, points: Sequence[Point]) -> Table:
        return Table(
            "Best validation accuracy: medians with 90 % bands; implicit minus standard: mean over "
            "pairs with its 95 % interval",
            ("", "Standard", "Implicit bias", "Difference, points (95 %)", "Pairs", "λ (median)"),
            [
                (
                    self.describe(point.value),
                    _band(point.standard),
                    _band(point.implicit),
                    found.short() if (found := point.difference()) else UNKNOWN,
                    str(found.count if found else 0),
                    median_lam(point.implicit),
                )
                for point in points
            ],
        )

    def _standard(self, settings: Settings, value: float) -> dict[int, RunConfig]:
        first = settings.first_seed
        seeds = range(first, first + self.instances(settings))
        return {seed: self.at(self.base(settings, seed=seed), value) for seed in seeds}

    def _implicit(self, settings: Settings, value: float) -> dict[int, RunConfig]:
        seeds, neuron = self.seeds(settings), "implicit"
        return {s: self.at(self.base(settings, seed=s, neuron=neuron), value) for s in seeds}


def _note(runs: Sequence[Run]) -> str:
    return f"{amounts(runs)}; number of networks in brackets"


def _curves(groups: Sequence[Mapping[int, Run]]) -> dict[int, list[float]]:
    seeds = sorted({seed for group in groups for seed in group})
    return {
        seed: [best_accuracy(group[seed]) if seed in group else math.nan for group in groups]
        for seed in seeds
    }


def _band(runs: Mapping[int, Run]) -> str:
    if not runs:
        return "none"
    found = band(list(readings(runs).values()))
    return f"{percent(found.median)} ({100 * found.low:.1f} to {100 * found.high:.1f})"
