"""The experiment `capacity`: the paper's boundary figure, asked as what three neurons can do.

Each setting is one run of the protocol (SGD, one seed), and what is measured on it is the search:
many restarts of the same network with a better optimizer. The two stand side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ibnn.lab.experiments.capacity import claims, figures
from ibnn.lab.experiments.capacity.restarts import BATCH, RATE, SPREAD, STEPS, fit
from ibnn.lab.experiments.capacity.search import Search, searched
from ibnn.lab.experiments.experiment import Experiment, Preset, Run, Settings
from ibnn.lab.results import Findings, Picture
from ibnn.lab.training import Result, RunConfig

LAMBDAS = (-1.0, -0.5, -0.2, -0.05, 0.05, 0.08)
SLOPES = (1.0, 3.0, 10.0, 30.0)
SLOPE_LAM = -0.5  # of the panel over p: below 0, so that every p has one solution
UNITS = (3, 4, 5, 6, 8, 10)  # of the standard network; the implicit ones have three
HIDDEN = 3


@dataclass(frozen=True)
class Setting:
    """One network of the figure."""

    lam: float | None = None  # None: the standard neuron
    slope: float = 10.0
    hidden: int = HIDDEN

    def config(self, dataset: str, preset: Preset) -> RunConfig:
        """Its run of the protocol."""
        base = RunConfig(
            dataset=dataset,
            network="perceptron",
            hidden=self.hidden,
            epochs=preset.epochs,
            validate_every=min(20, preset.epochs),
            dtype="float64",
            initialisation="torch",
            n_train=preset.more.get("points"),
            n_test=preset.more.get("points"),
        )
        if self.lam is None:
            return base
        return base.replace(neuron="implicit", lam=self.lam, slope=self.slope, learn_lam=False)


def settings_of() -> list[Setting]:
    """Every network of the figure, once."""
    every = [Setting(hidden=units) for units in UNITS]
    every += [Setting(lam) for lam in LAMBDAS]
    every += [Setting(SLOPE_LAM, slope) for slope in SLOPES]
    return list(dict.fromkeys(every))


class Capacity(Experiment):
    """The best of many restarts by training accuracy, and the whole distribution beside it."""

    name = "capacity"
    title = "What three hidden neurons can represent"
    datasets = ("arrows", "moons", "circles", "spirals")
    engine = "ensemble"
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
        preset, dataset = self.preset(settings), self.dataset(settings)
        return [setting.config(dataset, preset) for setting in settings_of()]

    def measure(self, run: Run) -> dict[str, Any]:
        """The search. Which preset a run belongs to is read off the points it was trained on."""
        small = run.config.n_train is not None
        more = self.presets["smoke" if small else "cpu"].more
        found = fit(run.config, run.examples(), more["restarts"], more.get("steps", STEPS))
        return searched(run.config, run.examples(), found)

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        by_name = {run.config.identity(): run for run in runs}
        preset, dataset = self.preset(settings), self.dataset(settings)
        found: dict[Setting, Search] = {}
        for setting in settings_of():
            run = by_name.get(setting.config(dataset, preset).identity())
            if run is not None:
                found[setting] = Search.of(run)
        parts = claims.Parts(
            standard=found.get(Setting()),
            by_lam={s.lam: f for s, f in found.items() if s.lam is not None and s.slope == 10.0},
            by_slope={s.slope: f for s, f in found.items() if s.lam == SLOPE_LAM},
            by_units={s.hidden: f for s, f in found.items() if s.lam is None},
        )
        note = claims.footnote(parts)
        return Findings(
            headline=claims.headline(parts),
            pictures=[
                Picture("capacity", figures.draw_boundaries(dataset, parts, note), BOUNDARIES),
                Picture("units", figures.draw_units(parts, note), UNITS_CAPTION),
                Picture("restarts", figures.draw_restarts(parts, note), RESTARTS),
            ],
            claims=claims.claims(parts),
            rows=[row for search in found.values() for row in search.rows()],
            tables=[claims.table(parts)],
            notes=NOTES,
            settings=[
                ("Network", "2 inputs, one hidden layer, ReLU, batch normalization, 1 output"),
                (
                    "Search",
                    f"Adam, one-cycle learning rate up to {RATE:g}, batches of {BATCH}, "
                    f"{preset.more.get('steps', STEPS):,} steps, hidden weights from {SPREAD:g} "
                    "times PyTorch's range",
                ),
                ("Beside it", f"the protocol: SGD, {preset.epochs} epochs, seed 0"),
            ],
        )


BOUNDARIES = (
    "Where the best network of each setting, by training accuracy, is undecided between the two "
    f"classes; in the legend its accuracy on the training points. Left: lam at p = 10. Right: p at "
    f"lam = {SLOPE_LAM:g}. Pale dots: the training points."
)
UNITS_CAPTION = (
    "How many standard hidden units match three implicit ones: training accuracy of every restart "
    "(dots), the best (line) and the median (dashes); green, the best of three implicit units."
)
RESTARTS = "Every restart of every setting, by training accuracy; the bar is the median."
NOTES = (
    "The paper does not give shapes, samples, lam, p or training of this figure: all are ours.",
    "Networks are chosen by their accuracy on the training points; validation points choose "
    "nothing. All settings have the same number of restarts, steps and first weights.",
    "A best of many restarts is a lower bound of what a network can do. It is taken for settled "
    "when three restarts come within 0.2 points of it.",
    "The column SGD is one network of the published protocol (plain SGD, seed 0): how far it is "
    "from the best says what optimization, not capacity, costs.",
)
