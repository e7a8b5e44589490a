"""Fig. 2 of the paper: what boundaries three hidden neurons can draw between two classes."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, ClassVar

from ibnn.lab.experiments.boundary import findings
from ibnn.lab.experiments.boundary.figures import (
    STD,
    UNITS,
    draw_boundaries,
    draw_energy,
    draw_every_network,
    draw_seeds,
)
from ibnn.lab.experiments.experiment import Experiment, Preset, Run, Settings
from ibnn.lab.experiments.plane import DATASETS, SLOPE, Condition
from ibnn.lab.experiments.protocol import protocol
from ibnn.lab.results import Findings, Picture
from ibnn.lab.stats.region import curved_fraction, logits_on_grid, pack, solidity
from ibnn.lab.training import Result, RunConfig
from ibnn.nn.bounds import FRACTION_OF_THRESHOLD

LAMBDAS = (-1.0, -0.5, -0.2, -0.05, 0.05)
SLOPES = (1.0, 3.0, 10.0, 30.0)
MEASURED_SIDE = 81  # points per side of the grid on which a region is measured


class Boundary(Experiment):
    """The standard network beside lam at p = 10, then beside p at the best lam."""

    name = "boundary"
    title = "Decision boundaries of three hidden neurons"
    datasets = DATASETS
    engine = "ensemble"
    renamed: ClassVar = {"curved_share": "curved_fraction"}
    presets: ClassVar = {
        "smoke": Preset(
            seeds=2,
            epochs=3,
            reduced=("400 points.",),
            more={"n_train": 400, "n_test": 400, "initialisation": "torch"},
        ),
        "cpu": Preset(seeds=10, epochs=200, more={"initialisation": "torch"}),
        # as the published image networks start; the paper says nothing about this figure's
        "paper": Preset(seeds=10, epochs=200, more={"initialisation": "paper"}),
    }

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        first = [Condition(), *(Condition(lam) for lam in LAMBDAS)]
        known = self._runs(settings, first)
        if all(config.identity() in results for config in known):
            known += self._runs(settings, slope_sweep(self._best_lam(settings, results)))
        return known

    def _runs(self, settings: Settings, conditions: Sequence[Condition]) -> list[RunConfig]:
        preset, dataset = self.preset(settings), self.dataset(settings)
        seeds = self.seeds(settings)
        return [c.config(preset, dataset, s, **preset.more) for c in conditions for s in seeds]

    def _best_lam(self, settings: Settings, results: Mapping[str, Result]) -> float:
        """By the accuracy on the training points: the validation points choose nothing."""

        def score(lam: float) -> float:
            runs = self._runs(settings, [Condition(lam)])
            return median(results[config.identity()].train_accuracy for config in runs)

        return max(LAMBDAS, key=score)

    def measure(self, run: Run) -> dict[str, Any]:
        """How convex the region of the inner class is, and how much of its edge is curved."""
        values = logits_on_grid(run.network(), MEASURED_SIDE)
        return {
            "solidity": solidity(values > 0),
            "curved_fraction": curved_fraction(values),
            "inside": pack(values > 0),
        }

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        groups: dict[Condition, list[Run]] = {}
        for run in runs:
            groups.setdefault(condition_of(run.config), []).append(run)
        standard = groups.get(Condition(), [])
        left = {c: groups[c] for c in map(Condition, LAMBDAS) if c in groups}
        results = {run.config.identity(): run.result for run in runs}
        first = self._runs(settings, [Condition(lam) for lam in LAMBDAS])
        complete = all(config.identity() in results for config in first)
        right: dict[Condition, list[Run]] = {}
        if complete:
            sweep = slope_sweep(self._best_lam(settings, results))
            right = {c: groups[c] for c in sweep if c in groups}
        dataset = self.dataset(settings)
        best = Condition(self._best_lam(settings, results)) if complete else None
        panels = findings.Panels(standard, left, right, groups.get(best, []) if best else [])
        return Findings(
            headline=panels.headline(),
            pictures=[
                Picture("boundary", draw_boundaries(dataset, standard, left, right), LINES),
                Picture("networks", draw_every_network(groups), NETWORKS),
                Picture("seeds", draw_seeds(standard, left, right), SEEDS),
                Picture("energy", draw_energy(), ENERGY),
            ],
            claims=panels.claims(),
            rows=[findings.row(run) for group in groups.values() for run in group],
            tables=[findings.table(groups)],
            notes=panels.notes(),
            settings=protocol(runs),
        )


LINES = (
    "Where each network is undecided between the two classes (pale dots: validation points). "
    "Every line is the seed with the median validation accuracy of its setting, which stands in "
    f"the legend. Left: λ at p = {SLOPE:g}. Right: p at the λ with the best training accuracy."
)
NETWORKS = (
    "Worst to best seed from left to right, with the validation accuracy in % below each "
    "map of the plane."
)
SEEDS = "Every dot is a network; the bar is the median of its setting."
ENERGY = (
    f"Left: {UNITS} units with pre-activations of standard deviation {STD:g}. Right: three units "
    "with λ < 0; the level lines are those of the energy in the plane they cannot leave, since "
    "their mean is kept."
)


def slope_sweep(lam: float) -> list[Condition]:
    """The conditions of the right panel; lam stays below 1/p as far as a learnt one would."""
    return [Condition(min(lam, FRACTION_OF_THRESHOLD / p), p) for p in SLOPES]


def condition_of(config: RunConfig) -> Condition:
    """Which line of the figure a run belongs to."""
    if config.neuron == "standard":
        return Condition()
    assert isinstance(config.lam, float)
    return Condition(config.lam, config.slope)
