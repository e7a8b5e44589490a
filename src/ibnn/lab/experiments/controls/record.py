"""What is kept of a run: enough to draw and decide everything, and to be read back from a CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.readings import numbers
from ibnn.lab.stats import needed_for_common_best, running_mean

SMOOTHED = 3  # epochs of the running mean
WHITE_BOX = "white_box"


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
            curve=tuple(m.accuracy for m in run.metrics() if m.stage == "training"),
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


class Records:
    """The networks of several arms, by arm and seed."""

    def __init__(self, records: Iterable[Record]):
        self._by_arm: dict[str, dict[int, Record]] = {}
        for record in records:
            self._by_arm.setdefault(record.arm, {})[record.seed] = record

    def __iter__(self):
        return (record for arm in self._by_arm.values() for record in arm.values())

    def arms(self) -> list[str]:
        """Those with at least one network."""
        return list(self._by_arm)

    def of(self, arm: str) -> list[Record]:
        """The networks of an arm, by seed."""
        return [record for _, record in sorted(self._by_arm.get(arm, {}).items())]

    def best(self, arm: str) -> dict[int, float]:
        """Best accuracy by seed: the primary measure."""
        return {record.seed: record.best for record in self.of(arm)}

    def last(self, arm: str) -> dict[int, float]:
        """Accuracy after the last epoch by seed."""
        return {record.seed: record.last for record in self.of(arm)}

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

    def epochs_needed(self, arm: str, other: str) -> tuple[dict[int, float], dict[int, float]]:
        """Epochs that each arm needs for the highest accuracy both reach, by common seed."""
        first, second = self._by_arm.get(arm, {}), self._by_arm.get(other, {})
        ours: dict[int, float] = {}
        theirs: dict[int, float] = {}
        for seed in first.keys() & second.keys():
            curves = first[seed].smooth(), second[seed].smooth()
            epochs = range(1, len(curves[0]) + 1)
            ours[seed], theirs[seed] = needed_for_common_best(list(epochs), *curves)
        return ours, theirs


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split())


# column of the CSV -> field of a record, and how it is read back
_COLUMNS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "arm": ("arm", str),
    "seed": ("seed", int),
    "best_accuracy": ("best", float),
    "accuracy": ("last", float),
    "lam": ("lam", _numbers),
    "parameters": ("parameters", int),
    "learning_rate": ("rate", float),
    "attacked": ("attacked", _numbers),
    "curve": ("curve", _numbers),
    "run": ("run", str),
}
