"""The experiment `controls-tuned`: every arm with the learning rate that suits it best.

The rate is picked on held-out training images with seeds of their own; the test split is not
looked at until it is fixed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from ibnn.lab.experiments.controls.arms import Arm
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.controls.variant import Variant
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.results import Findings, Table
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


class ControlsTuned(Variant):
    """Stage one picks the rates of the arms, stage two compares them."""

    name = "controls-tuned"
    title = "Controls with tuned learning rates"
    change = "with a learning rate tuned for each arm"

    def compared(self, settings: Settings, results: Results) -> list[tuple[Arm, RunConfig]]:
        rates = {arm.name: self.rate(settings, arm, results) for arm in self.arms(settings)}
        return [
            (arm, with_rate(config, rate))
            for arm, config in super().compared(settings, results)
            if (rate := rates[arm.name]) is not None
        ]

    def possible(self, settings: Settings, results: Results) -> list[RunConfig]:
        """With any rate: of a network trained elsewhere, that was picked there."""
        return [
            with_rate(config, rate)
            for _, config in super().compared(settings, results)
            for rate in (*RATES, *FURTHER_OUT.values())
        ]

    def plan(self, settings: Settings, results: Results) -> list[RunConfig]:
        tuning = [
            config
            for arm in self.arms(settings)
            for rate in self.rates(settings, arm, results)
            for config in self._tuning(settings, arm, rate)
        ]
        return [*tuning, *super().plan(settings, results)]

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

    def find_with(
        self, settings: Settings, runs: Sequence[Run], rows: Sequence[Mapping[str, str]]
    ) -> Findings:
        findings = super().find_with(settings, runs, rows)
        if not any(run.config.hold_out for run in runs):  # tuned elsewhere
            return findings
        results = {run.config.identity(): run.result for run in runs}
        rates = self._rate_table(settings, Records.from_rows(findings.rows), results)
        return replace(findings, tables=[*findings.tables, rates])

    def _tuning(self, settings: Settings, arm: Arm, rate: float) -> list[RunConfig]:
        return [
            with_rate(arm.of(self.base(settings, seed=seed, hold_out=HELD_OUT)), rate)
            for seed in TUNING_SEEDS
        ]

    def _rate_table(self, settings: Settings, records: Records, results: Results) -> Table:
        every = sorted({*RATES, *FURTHER_OUT.values()})
        rows = []
        for arm in self.arms(settings):
            scores = self.scores(settings, arm, results, every)
            cells = [percent(scores[r]) if r in scores else "" for r in every]
            here = self.rate(settings, arm, results)
            elsewhere = sorted({f"{record.rate:g} (elsewhere)" for record in records.of(arm.name)})
            rates = elsewhere if here is None else [f"{here:g}"]
            rows.append((arm.name, *cells, ", ".join(rates) or "not yet"))
        title = (
            f"Accuracy after the last epoch on {percent(HELD_OUT)} of the training images, held "
            f"out, by highest learning rate (seeds {' and '.join(map(str, TUNING_SEEDS))})"
        )
        return Table(title, ("Arm", *(f"{rate:g}" for rate in every), "Picked"), rows)
