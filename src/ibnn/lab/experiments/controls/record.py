"""What is kept of a run: enough to draw and decide everything, and to be read back from a CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from ibnn.lab.experiments.arms import ByArm
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.readings import numbers, parse_numbers
from ibnn.lab.experiments.robustness.pgd import WHITE_BOX
from ibnn.lab.stats import running_mean

SMOOTHED = 3  # epochs of the running mean


@dataclass(frozen=True)
class Record:
    """One trained network. Accuracies are between 0 and 1, on the validation split."""

    arm: str
    seed: int
    best: float  # over the epochs
    last: float  # after the last one
    curve: tuple[float, ...]  # after every epoch
    attacked: tuple[float, ...] = ()  # white-box accuracy at every eps, 0 first
    lam: tuple[float, ...] = ()
    parameters: int = 0
    rate: float = 0.01  # the highest learning rate
    run: str = ""

    @classmethod
    def of(cls, arm: str, run: Run) -> Record:
        """From a finished run and what was measured on it."""
        return cls(
            arm=arm,
            seed=run.config.seed,
            best=run.result.best_accuracy,
            last=run.result.accuracy,
            curve=tuple(line.accuracy for line in run.validations()),
            attacked=tuple(run.measured.get(WHITE_BOX, ())),
            lam=tuple(run.result.lam),
            parameters=run.result.parameters,
            rate=run.config.lr_high,
            run=run.result.identity,
        )

    def row(self) -> dict[str, Any]:
        values = {column: getattr(self, name) for column, (name, _) in _COLUMNS.items()}
        return {c: numbers(v, 6) if isinstance(v, tuple) else v for c, v in values.items()}

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Record:
        return cls(**{name: read(row[column]) for column, (name, read) in _COLUMNS.items()})

    @property
    def robust(self) -> float | None:
        """Accuracy under attack, the mean over every eps above 0; None if never attacked."""
        return fmean(self.attacked[1:]) if len(self.attacked) > 1 else None

    def smooth(self) -> list[float]:
        """The curve as it is drawn and compared: a running mean of three epochs."""
        return running_mean(self.curve, SMOOTHED)


class Records(ByArm[Record]):
    """The networks of several arms, by arm and seed."""

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, str]]) -> Records:
        """Read back from a CSV."""
        return cls(map(Record.from_row, rows))

    def best(self, arm: str) -> dict[int, float]:
        """Best accuracy by seed: the primary measure."""
        return self.by_seed(arm, lambda record: record.best)

    def last(self, arm: str) -> dict[int, float]:
        """Accuracy after the last epoch by seed."""
        return self.by_seed(arm, lambda record: record.last)

    def attacked(self, arm: str) -> list[float]:
        """White-box accuracy at every eps, the median of the networks that were attacked."""
        curves = [record.attacked for record in self.of(arm) if record.attacked]
        return [median(values) for values in zip(*curves, strict=True)]

    def robust(self, arm: str) -> dict[int, float]:
        """Mean white-box accuracy by seed, of the networks that were attacked."""
        return {r.seed: r.robust for r in self.of(arm) if r.robust is not None}

    def lost(self, arm: str) -> dict[int, float]:
        """What the attack takes from the clean accuracy of the same images, by seed."""
        return {r.seed: r.attacked[0] - r.robust for r in self.of(arm) if r.robust is not None}


# column of the CSV -> field of a record, and how it is read back
_COLUMNS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "arm": ("arm", str),
    "seed": ("seed", int),
    "best_accuracy": ("best", float),
    "accuracy": ("last", float),
    "lam": ("lam", parse_numbers),
    "parameters": ("parameters", int),
    "learning_rate": ("rate", float),
    "attacked": ("attacked", parse_numbers),
    "curve": ("curve", parse_numbers),
    "run": ("run", str),
}
