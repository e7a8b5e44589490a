"""The experiment `controls-tuned`: every arm with the learning rate that suits it best.

The rate is picked on held-out training images with seeds of their own; the test split is not
looked at until it is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ibnn.lab.experiments.controls import claims, figures, tables
from ibnn.lab.experiments.controls.arms import FIRST, Arm
from ibnn.lab.experiments.controls.experiment import CURVES, DIFFERENCES, NOTES, RULE, Controls
from ibnn.lab.experiments.controls.record import Record, Records
from ibnn.lab.experiments.controls.torch_initialization import published_pair, published_records
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.results import Findings, Picture, Table
from ibnn.lab.stats import percent
from ibnn.lab.training import Result, RunConfig

RATES = (0.003, 0.01, 0.03, 0.1)
FURTHER_OUT = {0.003: 0.001, 0.1: 0.3}  # tried once more where the best is at an end
HELD_OUT = 1 / 6
TUNING_SEEDS = (1000, 1001)

Results = Mapping[str, Result]


def with_rate(config: RunConfig, rate: float) -> RunConfig:
    """The same triangle of learning rates, its top at `rate`."""
    return config.replace(lr_high=rate, lr_low=rate / 10)


def picked(scores: Mapping[float, float]) -> float:
    """The rate with the best held-out accuracy; of equals the smallest.

    >>> picked({0.01: 0.8, 0.03: 0.9, 0.1: 0.9})
    0.03
    """
    return min(scores, key=lambda rate: (-scores[rate], rate))


class ControlsTuned(Controls):
    """The first six arms; stage one picks their rates, stage two compares them."""

    name = "controls-tuned"
    title = "Controls with tuned learning rates"
    arm_names = FIRST

    def plan(self, settings: Settings, results: Results) -> list[RunConfig]:
        known: list[RunConfig] = []
        for arm in self.arms(settings):
            for rate in self.rates(settings, arm, results):
                known += self._tuning(settings, arm, rate)
            known += self._compared(settings, arm, results).values()
        return known + published_pair(settings)

    def rates(self, settings: Settings, arm: Arm, results: Results) -> list[float]:
        """Every rate to try, as far as the results so far say."""
        scores = self.scores(settings, arm, results, RATES)
        if len(scores) < len(RATES) or picked(scores) not in FURTHER_OUT:
            return list(RATES)
        return [*RATES, FURTHER_OUT[picked(scores)]]

    def scores(
        self, settings: Settings, arm: Arm, results: Results, rates: Sequence[float]
    ) -> dict[float, float]:
        """Held-out accuracy after the last epoch, the mean over the tuning seeds that are done."""
        found = {}
        for rate in rates:
            names = [config.identity() for config in self._tuning(settings, arm, rate)]
            if all(name in results for name in names):
                found[rate] = fmean(results[name].accuracy for name in names)
        return found

    def rate(self, settings: Settings, arm: Arm, results: Results) -> float | None:
        """The arm's rate, once every tuning run has finished."""
        rates = self.rates(settings, arm, results)
        scores = self.scores(settings, arm, results, rates)
        return picked(scores) if len(scores) == len(rates) else None

    def measure(self, run: Run) -> dict[str, Any]:
        return {}

    def tuned_records(self, settings: Settings, runs: Sequence[Run]) -> Records:
        """The compared networks that have finished."""
        by_name = {run.config.identity(): run for run in runs}
        results = {name: run.result for name, run in by_name.items()}
        records = []
        for arm in self.arms(settings):
            for config in self._compared(settings, arm, results).values():
                run = by_name.get(config.identity())
                records += [Record.of(arm.name, run)] if run else []
        return Records(records)

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        records, note = self.tuned_records(settings, runs), self.footnote(settings, runs)
        results = {run.config.identity(): run.result for run in runs}
        published = published_records(settings, runs)
        return Findings(
            headline=claims.headline(records),
            pictures=[
                Picture(self.name, figures.draw_curves(records, note), CURVES),
                Picture("differences", figures.draw_differences(records), DIFFERENCES),
            ],
            claims=[
                claims.remains(published, records, "with a learning rate tuned for each arm"),
                *claims.accuracy_claims(records),
                *claims.speed_claims(records),
            ],
            rows=[record.row() for record in records],
            tables=[
                tables.accuracy_table(records),
                tables.speed_table(records),
                self._rate_table(settings, results),
            ],
            notes=(
                *NOTES[:1],
                f"The rate of each arm is the one with the best accuracy after the last epoch on "
                f"{percent(HELD_OUT)} of the training images, mean over the seeds "
                f"{' and '.join(map(str, TUNING_SEEDS))}; the lowest rate is a tenth of it.",
            ),
            rule=RULE,
            settings=self.settings_lines(settings),
        )

    def _tuning(self, settings: Settings, arm: Arm, rate: float) -> list[RunConfig]:
        return [
            with_rate(arm.of(self.base(settings, seed=seed, hold_out=HELD_OUT)), rate)
            for seed in TUNING_SEEDS
        ]

    def _compared(self, settings: Settings, arm: Arm, results: Results) -> dict[int, RunConfig]:
        rate = self.rate(settings, arm, results)
        if rate is None:
            return {}
        return {
            seed: with_rate(arm.of(self.base(settings, seed=seed)), rate)
            for seed in range(self.preset(settings).seeds)
        }

    def _rate_table(self, settings: Settings, results: Results) -> Table:
        every = sorted({*RATES, *FURTHER_OUT.values()})
        rows = []
        for arm in self.arms(settings):
            scores = self.scores(settings, arm, results, every)
            rate = self.rate(settings, arm, results)
            cells = [percent(scores[r]) if r in scores else "" for r in every]
            rows.append((arm.name, *cells, "not yet" if rate is None else f"{rate:g}"))
        title = "Held-out accuracy after the last epoch by highest learning rate, and the pick"
        return Table(title, ("Arm", *(f"{rate:g}" for rate in every), "Picked"), rows)
