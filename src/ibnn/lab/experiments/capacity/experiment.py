"""The experiment `capacity`: what three neurons can represent, on the paper's boundary figure.

Each setting is one run of the protocol (SGD, one seed), and what is measured on it is the search:
many restarts of the same network with a better optimizer. The two stand side by side.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ibnn.lab.experiments.arms import trained
from ibnn.lab.experiments.capacity import claims, figures
from ibnn.lab.experiments.capacity.restarts import (
    BATCH,
    RATE,
    SPREAD,
    STEPS,
    fit,
    seconds_per_step,
)
from ibnn.lab.experiments.capacity.search import Search, searched
from ibnn.lab.experiments.experiment import Experiment, Preset, Run, Settings
from ibnn.lab.experiments.plane import DATASETS, SLOPE, Condition
from ibnn.lab.experiments.protocol import protocol
from ibnn.lab.results import Findings, Picture
from ibnn.lab.training import Result, RunConfig

LAMBDAS = (-1.0, -0.5, -0.2, -0.05, 0.05, 0.08)
SLOPES = (1.0, 3.0, 10.0, 30.0)
SLOPE_LAM = -0.5  # of the panel over p: below 0, so that every p has one solution
UNITS = (3, 4, 5, 6, 8, 10)  # of the standard network; the implicit ones have three


CONDITIONS = tuple(
    dict.fromkeys(
        (
            *(Condition(hidden=units) for units in UNITS),
            *(Condition(lam) for lam in LAMBDAS),
            *(Condition(SLOPE_LAM, slope) for slope in SLOPES),
        )
    )
)


def _size_of_search(config: RunConfig) -> tuple[int, int]:
    """Restarts and steps: which preset a run belongs to is read off the points it is trained on."""
    more = Capacity.presets["cpu" if config.n_train is None else "smoke"].more
    return more["restarts"], more.get("steps", STEPS)


class Capacity(Experiment):
    """The best of many restarts by training accuracy, and the whole distribution beside it."""

    name = "capacity"
    title = "What three hidden neurons can represent"
    datasets = DATASETS
    engine = "ensemble"
    takes_seeds = False  # the restarts of a search are its seeds
    presets: ClassVar = {
        "smoke": Preset(
            seeds=1,
            epochs=2,
            reduced=("4 restarts of 20 steps on 300 points: shows that it runs, nothing else.",),
            more={"restarts": 4, "steps": 20, "points": 300},
        ),
        "cpu": Preset(seeds=1, epochs=200, more={"restarts": 60}),
        "paper": Preset(seeds=1, epochs=200, more={"restarts": 60}),
    }

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        return list(self._configs(settings).values())

    def _configs(self, settings: Settings) -> dict[Condition, RunConfig]:
        preset, dataset = self.preset(settings), self.dataset(settings)
        points = preset.more.get("points")
        more = {"n_train": points, "n_test": points, "initialisation": "torch"}
        return {c: c.config(preset, dataset, **more) for c in CONDITIONS}

    def measure(self, run: Run) -> dict[str, Any]:
        restarts, steps = _size_of_search(run.config)
        found = fit(run.config, run.examples(), restarts, steps)
        return searched(run.config, run.examples(), found)

    def measuring_seconds(self, configs: Sequence[RunConfig]) -> float | None:
        """By a few steps of each neuron here."""
        total = 0.0
        for neuron in ("standard", "implicit"):
            alike = [config for config in configs if config.neuron == neuron]
            if alike:
                restarts, steps = _size_of_search(alike[0])
                total += len(alike) * steps * seconds_per_step(alike[0], restarts)
        return total or None

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        compared = trained(self._configs(settings).items(), runs)
        found = {condition: Search.of(run) for condition, run in compared}
        parts = claims.Parts(
            standard=found.get(Condition()),
            by_lam={c.lam: f for c, f in found.items() if c.lam is not None and c.slope == SLOPE},
            by_slope={c.slope: f for c, f in found.items() if c.lam == SLOPE_LAM},
            by_units={c.hidden: f for c, f in found.items() if c.lam is None},
        )
        dataset, note = self.dataset(settings), claims.footnote(parts)
        steps = self.preset(settings).more.get("steps", STEPS)
        search = (
            f"Adam, one-cycle learning rate up to {RATE:g}, batches of {BATCH}, {steps:,} steps, "
            f"hidden weights from {SPREAD:g} times PyTorch's range"
        )
        return Findings(
            headline=claims.headline(parts),
            pictures=[
                Picture("capacity", figures.draw_boundaries(dataset, parts, note), BOUNDARIES),
                Picture("units", figures.draw_units(parts, note), UNITS_CAPTION),
                Picture("restarts", figures.draw_restarts(parts, note), RESTARTS),
            ],
            claims=claims.claims(parts),
            rows=[row for search in found.values() for row in search.rows()],
            tables=[claims.table(found)],
            rule=claims.RULE,
            settings=[("Search", search), *(("SGD: " + k, v) for k, v in protocol(runs))],
        )


BOUNDARIES = (
    "Where the best network of each setting, by training accuracy, is undecided between the two "
    f"classes; in the legend its accuracy on the training points. Left: λ at p = 10. Right: p at "
    f"λ = {SLOPE_LAM:g}. Pale dots: the training points."
)
UNITS_CAPTION = (
    "How many standard hidden units match three implicit ones: training accuracy of every restart "
    "(dots), the best (line) and the median (dashes); green, the best of three implicit units."
)
RESTARTS = "Every restart of every setting, by training accuracy; the bar is the median."
