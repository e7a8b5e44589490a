"""What is kept of a run: its accuracy, and where lam, slope and extent went; also from a CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ibnn.lab.experiments.arms import ByArm
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.readings import numbers, parse_numbers
from ibnn.lab.stats import Paired

EXTENT = "extent"


@dataclass(frozen=True)
class Record:
    """One trained network. Accuracies are between 0 and 1, on the validation split."""

    arm: str
    seed: int
    curve: tuple[float, ...]  # after every epoch
    lam: tuple[float, ...]
    slope: tuple[float, ...]
    extent: tuple[float, ...]  # standard deviation of each layer's window, in pixels
    unsolved: float  # fraction of rows of the worst validation
    parameters: int
    seconds: float
    run: str

    @classmethod
    def of(cls, arm: str, run: Run) -> Record:
        """From a finished run and what was measured on it."""
        lines = run.validations()
        solved = [1.0 if m.converged is None else m.converged for m in lines]
        return cls(
            arm=arm,
            seed=run.config.seed,
            curve=tuple(m.accuracy for m in lines),
            lam=tuple(run.result.lam),
            slope=tuple(run.result.slope),
            extent=tuple(run.measured[EXTENT]),
            # rounding of a mean over rows leaves 1e-16
            unsolved=max(0.0, round(1 - min(solved), 12)),
            parameters=run.result.parameters,
            seconds=run.result.seconds,
            run=run.result.identity,
        )

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Record:
        """From a line of the CSV."""
        several = {name: parse_numbers(row[name]) for name in ("curve", "lam", "slope", "extent")}
        return cls(
            arm=row["arm"],
            seed=int(row["seed"]),
            unsolved=float(row["unsolved"]),
            parameters=int(row["parameters"]),
            seconds=float(row["training_seconds"]),
            run=row["run"],
            **several,
        )

    @property
    def best(self) -> float:
        """The best accuracy over the epochs: the primary measure."""
        return max(self.curve)

    def row(self) -> dict[str, Any]:
        """One line of the CSV."""
        return {
            "arm": self.arm,
            "seed": self.seed,
            "best_accuracy": self.best,
            "accuracy": self.curve[-1],
            "lam": numbers(self.lam),
            "slope": numbers(self.slope),
            "extent": numbers(self.extent),
            "unsolved": self.unsolved,
            "parameters": self.parameters,
            "training_seconds": f"{self.seconds:.4g}",
            "curve": numbers(self.curve, 6),
            "run": self.run,
        }


class Records(ByArm[Record]):
    """The networks of several arms, by arm and seed."""

    def gain(self, arm: str, other: str) -> Paired | None:
        """`arm` minus `other` in best accuracy, pair by pair."""
        return self.difference(arm, other, lambda record: record.best)
