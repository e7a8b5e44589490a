"""What is kept of a run, and how its measure is written: accuracy, or bits per character."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from ibnn.lab.experiments.architectures.amounts import STANDARD
from ibnn.lab.experiments.arms import ByArm
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.readings import numbers
from ibnn.lab.stats import median_curve, reaches

COST, SECONDS = "step_cost", "step_seconds"


@dataclass(frozen=True)
class Measure:
    """How networks are compared: larger scores are better, whatever people read."""

    name: str  # of the value
    unit: str  # of a difference
    scale: float  # of a difference, to its unit
    digits: int
    equivalent: float  # intervals within this either way are equivalent

    def value(self, score: float) -> str:
        """A score as people read it."""
        return f"{100 * score:.1f} %" if self.scale == 100 else f"{-score:.3f}"

    def shown(self, score: float) -> float:
        """A score on the axis of a figure."""
        return 100 * score if self.scale == 100 else -score


ACCURACY = Measure("validation accuracy, %", "points", 100.0, 2, 0.003)
BITS = Measure("bits per character", "bits per character saved", 1.0, 4, 0.01)


@dataclass(frozen=True)
class Record:
    """One trained network; a score is its accuracy, or its bits per character times -1."""

    network: str
    arm: str
    seed: int
    curve: tuple[float, ...]  # the score after every epoch
    lam: tuple[float, ...]
    parameters: int
    cost: float  # of a step, in steps of a yardstick timed in the same process
    seconds: float  # of a step
    trained: float  # seconds of the whole training
    run: str

    @classmethod
    def of(cls, arm: str, run: Run) -> Record:
        """From a finished run and what was measured on it."""
        return cls(
            network=run.config.network,
            arm=arm,
            seed=run.config.seed,
            curve=tuple(line.score for line in run.validations()),
            lam=tuple(run.result.lam),
            parameters=run.result.parameters,
            cost=run.measured[COST],
            seconds=run.measured[SECONDS],
            trained=run.result.seconds,
            run=run.result.identity,
        )

    @property
    def best(self) -> float:
        """The best score over the epochs."""
        return max(self.curve)

    def row(self) -> dict[str, Any]:
        """One line of the CSV."""
        bits = self.curve[0] < 0
        sign = -1 if bits else 1
        return {
            "network": self.network,
            "arm": self.arm,
            "seed": self.seed,
            "measure": "bits per character" if bits else "accuracy",
            "best": sign * self.best,
            "last": sign * self.curve[-1],
            "curve": numbers((sign * score for score in self.curve), 6),
            "lam": numbers(self.lam),
            "parameters": self.parameters,
            "step_cost": f"{self.cost:.4g}",
            "step_seconds": f"{self.seconds:.4g}",
            "training_seconds": f"{self.trained:.4g}",
            "run": self.run,
        }


class Records(ByArm[Record]):
    """The networks of one architecture, by arm and seed."""

    def __init__(self, network: str, records: Iterable[Record]):
        super().__init__(record for record in records if record.network == network)
        self.network = network

    @property
    def measure(self) -> Measure:
        """How these networks are compared."""
        return BITS if next((record.best for record in self), 0.0) < 0 else ACCURACY

    def costs(self, arm: str) -> dict[int, float]:
        """The time of a step over that of the standard network of equal seed."""
        standard = self._by_arm.get(STANDARD, {})
        return {r.seed: r.cost / standard[r.seed].cost for r in self.of(arm) if r.seed in standard}

    def median_curve(self, arm: str) -> list[float]:
        """The median score after every epoch."""
        return median_curve({record.seed: record.curve for record in self.of(arm)})

    def reached(self, arm: str, other: str) -> float | None:
        """The epoch in which an arm's median curve reaches the best of another's; None: never."""
        if not (self.of(arm) and self.of(other)):
            return None
        ours = self.median_curve(arm)
        return reaches(list(range(1, 1 + len(ours))), ours, max(self.median_curve(other)))

    def lam(self, arm: str) -> list[float]:
        """Where lam went, the median of each layer."""
        lams = [record.lam for record in self.of(arm) if record.lam]
        return [median(values) for values in zip(*lams, strict=True)]


def by_network(records: Iterable[Record]) -> Mapping[str, Records]:
    """The networks of every architecture."""
    listed = list(records)
    names = dict.fromkeys(record.network for record in listed)
    return {name: Records(name, listed) for name in names}
