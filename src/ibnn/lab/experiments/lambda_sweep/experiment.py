"""Accuracy over lam and slope on held-out training data: what the paper's grid search walks on."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import EPOCHS, ImageExperiment, Size
from ibnn.lab.experiments.lam_modes import HELD_OUT
from ibnn.lab.experiments.lambda_sweep import findings
from ibnn.lab.experiments.lambda_sweep.cells import CELLS, PAPERS_SLOPE, WINDOW, Cell, SweepRuns
from ibnn.lab.experiments.lambda_sweep.figures import draw_map, draw_products
from ibnn.lab.experiments.protocol import protocol
from ibnn.lab.experiments.readings import amounts, finished
from ibnn.lab.models import implicit_layers
from ibnn.lab.results import Findings, Picture
from ibnn.lab.training import Result, RunConfig

CONFIRMING = 5  # further seeds of the best cell: it was chosen among many, and flatters itself
CONFIRMING_SMOKE = 2
_SIZES = {
    "smoke": Size(epochs=2, n_train=200, seeds=2),
    "cpu": Size(epochs=8, n_train=4_000, seeds=2),
    "paper": Size(),
}
_EXPENSIVE = Size(epochs=6, n_train=2_000, seeds=2)  # preset cpu where a network takes long


class LambdaSweep(ImageExperiment):
    """The test split is never looked at: every number is of training data that was held out."""

    name = "lambda-sweep"
    title = "Accuracy over λ and slope"
    takes_lam = False

    def size(self, settings: Settings) -> Size:
        small = settings.preset == "cpu" and self.defaults(settings).expensive
        return _EXPENSIVE if small else _SIZES[settings.preset]

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        seeds = self.seeds(settings)
        twins = [self._standard(settings, seed) for seed in seeds]
        known = [*twins, *(cell.config(s) for cell in self.cells(settings) for s in twins)]
        best = self.best(settings, results)
        if best is not None:
            for seed in self._fresh(settings):
                standard = self._standard(settings, seed)
                known += [standard, best.config(standard)]
        return known

    def cells(self, settings: Settings) -> Sequence[Cell]:
        """What is swept: less in the smaller presets."""
        if settings.preset == "smoke":
            return [cell for cell in CELLS if cell.slope == PAPERS_SLOPE]
        if settings.preset == "cpu":  # a window takes about 20 times as long to train
            return [c for c in CELLS if c.column.name != WINDOW or c.slope == PAPERS_SLOPE]
        return CELLS

    def best(self, settings: Settings, results: Mapping[str, Result]) -> Cell | None:
        """The cell with the best median accuracy; None until every cell is finished."""
        scores: dict[Cell, float] = {}
        for cell in self.cells(settings):
            names = [
                cell.config(self._standard(settings, seed)).identity()
                for seed in self.seeds(settings)
            ]
            if any(name not in results for name in names):
                return None
            scores[cell] = median(results[name].best_accuracy for name in names)
        return max(scores, key=lambda cell: scores[cell])

    def measure(self, run: Run) -> dict[str, Any]:
        """Where a learnt window ended; everything else is in the result."""
        if not run.config.learn_window or run.config.neuron == "standard":
            return {}
        layers = implicit_layers(run.network())
        return {"window_std": [float(layer.coupling.std.detach()) for layer in layers]}

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        swept = self.swept(settings, runs)
        note = f"{self.preset(settings).seeds} seeds of each, {amounts(runs)}"
        return Findings(
            headline=findings.headline(swept),
            pictures=[
                Picture("map", draw_map(swept, note), MAP),
                Picture("products", draw_products(swept, note), PRODUCTS),
            ],
            claims=findings.claims(swept),
            rows=findings.rows(swept),
            tables=findings.tables(swept),
            settings=protocol(runs),
        )

    def swept(self, settings: Settings, runs: Sequence[Run]) -> SweepRuns:
        """The finished runs by cell and seed."""
        chosen, fresh = self.seeds(settings), self._fresh(settings)
        best = self.best(settings, {run.config.identity(): run.result for run in runs})

        def standard(seeds: range) -> dict[int, Run]:
            return finished({seed: self._standard(settings, seed) for seed in seeds}, runs)

        def implicit(cell: Cell, seeds: range) -> dict[int, Run]:
            configs = {seed: cell.config(self._standard(settings, seed)) for seed in seeds}
            return finished(configs, runs)

        return SweepRuns(
            standard(chosen),
            {cell: implicit(cell, chosen) for cell in self.cells(settings)},
            best,
            standard(fresh) if best else {},
            implicit(best, fresh) if best else {},
        )

    def _fresh(self, settings: Settings) -> range:
        """The seeds that confirm the best cell."""
        first = self.seeds(settings).stop
        count = CONFIRMING_SMOKE if settings.preset == "smoke" else CONFIRMING
        return range(first, first + count)

    def _standard(self, settings: Settings, seed: int) -> RunConfig:
        return self.base(settings, seed=seed, hold_out=HELD_OUT)

    def reduced(self, settings: Settings, chosen: Size) -> list[str]:
        lines = []
        if chosen.n_train is not None:
            lines.append(f"The first {chosen.n_train:,} training images are used.")
        if chosen.epochs < EPOCHS:
            lines.append(f"{chosen.epochs} epochs in place of {EPOCHS}.")
        if len(self.cells(settings)) < len(CELLS):
            what = "Everything" if settings.preset == "smoke" else "The window"
            lines.append(f"{what} is trained at p = {PAPERS_SLOPE:g} only.")
        if not self.all_seeds(settings):
            lines.append(f"{chosen.seeds} seeds of each cell, in place of {_SIZES['paper'].seeds}.")
        return lines


MAP = (
    "Median over seeds of the best accuracy, and below it the median gain over the standard "
    "network of equal seeds, in points. Green: the implicit-bias neuron is better; blue: the "
    "standard one is; framed: the best cell. A learnt p starts at its row."
)
PRODUCTS = "The gain of every fixed λ, by slope: lines are medians, dots single seeds."
