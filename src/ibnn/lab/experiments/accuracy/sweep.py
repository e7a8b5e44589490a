"""Both neurons side by side over some values: the frame of the paper's accuracy figures."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.lam_modes import LamMode, lam_mode
from ibnn.lab.stats import Paired, paired
from ibnn.lab.training import Result, RunConfig

Reading = Callable[[Run], float]


def best_accuracy(run: Run) -> float:
    """The best validation accuracy of a run: what the paper's figures show."""
    return run.result.best_accuracy


@dataclass(frozen=True)
class Point:
    """The networks trained at one value of the x axis, by seed."""

    value: float
    standard: Mapping[int, Run]
    implicit: Mapping[int, Run]

    def difference(self, reading: Reading = best_accuracy) -> Paired | None:
        """Implicit minus standard over the seeds both have."""
        return paired(readings(self.implicit, reading), readings(self.standard, reading))


def readings(runs: Mapping[int, Run], reading: Reading = best_accuracy) -> dict[int, float]:
    """One number of each run, by seed."""
    return {seed: reading(run) for seed, run in runs.items()}


class Sweep(ImageExperiment):
    """Standard and implicit networks with equal seeds at every value of something."""

    @abstractmethod
    def values(self, settings: Settings) -> Sequence[float]:
        """The values on the x axis."""

    @abstractmethod
    def at(self, config: RunConfig, value: float) -> RunConfig:
        """The run at one of those values."""

    def check(self, settings: Settings) -> None:
        super().check(settings)
        self.mode(settings)

    def mode(self, settings: Settings) -> LamMode:
        """How lam is found."""
        return lam_mode(settings.lam, self.base(settings, neuron="implicit"))

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        mode = self.mode(settings)
        known: list[RunConfig] = []
        for value in self.values(settings):
            known += [self._standard(settings, value, seed) for seed in self._seeds(settings)]
            for seed in range(self.preset(settings).seeds):
                known += mode.runs(self._implicit(settings, value, seed), results)
        return known

    def points(self, settings: Settings, runs: Sequence[Run]) -> list[Point]:
        """The finished runs by value, neuron and seed; runs that only helped to find lam aside."""
        by_name = {run.config.identity(): run for run in runs}
        results = {name: run.result for name, run in by_name.items()}
        mode, points = self.mode(settings), []
        for value in self.values(settings):
            standard = {
                seed: self._standard(settings, value, seed) for seed in self._seeds(settings)
            }
            implicit = {
                seed: mode.compared(self._implicit(settings, value, seed), results)
                for seed in range(self.preset(settings).seeds)
            }
            points.append(Point(value, _finished(standard, by_name), _finished(implicit, by_name)))
        return points

    def comparison(self, points: Sequence[Point], xs: Sequence[float]) -> Comparison:
        """The best accuracy of every network over the points."""
        return Comparison(xs, _curves(points, "standard"), _curves(points, "implicit"))

    def _seeds(self, settings: Settings) -> range:
        return range(self.instances(settings))

    def _standard(self, settings: Settings, value: float, seed: int) -> RunConfig:
        return self.at(self.base(settings, seed=seed), value)

    def _implicit(self, settings: Settings, value: float, seed: int) -> RunConfig:
        return self._standard(settings, value, seed).replace(neuron="implicit")


def _curves(points: Sequence[Point], neuron: str) -> dict[int, list[float]]:
    runs: list[Mapping[int, Run]] = [getattr(point, neuron) for point in points]
    seeds = sorted({seed for group in runs for seed in group})
    return {
        seed: [best_accuracy(group[seed]) if seed in group else math.nan for group in runs]
        for seed in seeds
    }


def _finished(configs: Mapping[int, RunConfig | None], runs: Mapping[str, Run]) -> dict[int, Run]:
    names = {seed: config.identity() for seed, config in configs.items() if config}
    return {seed: runs[name] for seed, name in names.items() if name in runs}
