"""How an experiment finds lam: learnt, learnt and frozen, picked on held-out data, or fixed."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from ibnn.lab.experiments.experiment import ExperimentError
from ibnn.lab.training import Result, RunConfig

GRID = (-0.5, -0.2, -0.1, -0.05, 0.03, 0.06, 0.09)
HELD_OUT = 0.2
PICKING_SEEDS = 2
NAMES = "learnt, frozen, picked or a number"

Results = Mapping[str, Result]


class LamMode(ABC):
    """What has to be trained to compare one implicit network with its standard twin."""

    name: str

    def first(self, implicit: RunConfig) -> list[RunConfig]:
        """What is trained before the compared run, to find its lam."""
        return []

    def runs(self, implicit: RunConfig, results: Results) -> list[RunConfig]:
        """Every run known to be needed, the compared one last once it is known."""
        compared = self.compared(implicit, results)
        return [*self.first(implicit), *([] if compared is None else [compared])]

    @abstractmethod
    def compared(self, implicit: RunConfig, results: Results) -> RunConfig | None:
        """The run that stands beside the standard one; None until earlier ones have finished."""

    def about(self, results: Results) -> str | None:
        """How lam was found, for readers; None if the configurations of the runs say it all."""
        return None


@dataclass(frozen=True)
class Learnt(LamMode):
    """One training, lam from 0 with everything else."""

    name = "learnt"

    def compared(self, implicit: RunConfig, results: Results) -> RunConfig:
        return implicit


@dataclass(frozen=True)
class Frozen(LamMode):
    """The paper's "pre-training": lam learnt in a first training, fixed in a second one."""

    name = "frozen"

    def first(self, implicit: RunConfig) -> list[RunConfig]:
        return [implicit]

    def compared(self, implicit: RunConfig, results: Results) -> RunConfig | None:
        first = results.get(implicit.identity())
        return None if first is None else fixed(implicit, tuple(first.lam))

    def about(self, results: Results) -> str:
        return "learnt in a first training, then fixed in a second one from the first weights again"


@dataclass(frozen=True)
class Picked(LamMode):
    """The best of a grid on examples held out of the training data, at the central network."""

    central: RunConfig  # the implicit network on which lam is picked
    name = "picked"

    def trials(self) -> dict[float, list[RunConfig]]:
        """The trainings of each lam of the grid."""
        seeds = range(PICKING_SEEDS)
        return {
            lam: [fixed(self.central.replace(seed=s, hold_out=HELD_OUT), (lam,)) for s in seeds]
            for lam in GRID
        }

    def best(self, results: Results) -> float | None:
        """The lam with the best median accuracy on the held-out examples."""
        trials = self.trials()
        if any(run.identity() not in results for runs in trials.values() for run in runs):
            return None
        scores = {
            lam: median(results[run.identity()].best_accuracy for run in runs)
            for lam, runs in trials.items()
        }
        return max(scores, key=lambda lam: scores[lam])

    def first(self, implicit: RunConfig) -> list[RunConfig]:
        return [run for runs in self.trials().values() for run in runs]

    def compared(self, implicit: RunConfig, results: Results) -> RunConfig | None:
        lam = self.best(results)
        return None if lam is None else fixed(implicit, (lam,))

    def about(self, results: Results) -> str:
        grid = ", ".join(f"{lam:g}" for lam in GRID)
        best = self.best(results)
        found = "not known yet" if best is None else f"{best:g}"
        return (
            f"{found}, picked from {grid} on {HELD_OUT:.0%} of the training data, held out, "
            f"with {PICKING_SEEDS} seeds each; the test split picks nothing"
        )


@dataclass(frozen=True)
class Fixed(LamMode):
    """The same lam everywhere."""

    lam: float
    name = "fixed"

    def compared(self, implicit: RunConfig, results: Results) -> RunConfig:
        return fixed(implicit, (self.lam,))


def fixed(implicit: RunConfig, lam: tuple[float, ...]) -> RunConfig:
    """The run with that lam (one for all layers, or one for each) and no other."""
    value: Any = lam[0] if len(lam) == 1 else lam
    return implicit.replace(lam=value, learn_lam=False)


def lam_mode(text: str | None, central: RunConfig) -> LamMode:
    """The mode a user asked for by `--lam`."""
    if text is None or text == "learnt":
        return Learnt()
    if text == "frozen":
        return Frozen()
    if text == "picked":
        return Picked(central)
    try:
        return Fixed(float(text))
    except ValueError:
        raise ExperimentError(f"lam is {text!r}, expected {NAMES}") from None
