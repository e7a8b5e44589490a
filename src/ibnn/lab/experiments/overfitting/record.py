"""What is kept of a run trained on wrong labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ibnn.lab.experiments.accuracy.memorization import decline_begins
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.stats import Paired, paired

LEARNT = "learnt_by_heart"


@dataclass(frozen=True)
class Record:
    """One network. Accuracies and fractions are between 0 and 1."""

    arm: str
    wrong: float  # fraction of training labels that are wrong
    seed: int
    best: float  # validation accuracy, the best epoch
    last: float  # after the last epoch
    learnt: float | None  # fraction of the wrong labels the network predicts; None without any
    decline: int  # epoch from which validation accuracy only declines
    epochs: int
    run: str = ""

    @classmethod
    def of(cls, arm: str, run: Run) -> Record:
        """From a finished run and what was measured on it."""
        curve = [line.accuracy for line in run.validations()]
        return cls(
            arm=arm,
            wrong=run.config.label_noise,
            seed=run.config.seed,
            best=run.result.best_accuracy,
            last=run.result.accuracy,
            learnt=run.measured.get(LEARNT),
            decline=decline_begins(curve),
            epochs=len(curve),
            run=run.result.identity,
        )

    def row(self) -> dict[str, Any]:
        return {
            "arm": self.arm,
            "wrong_labels": self.wrong,
            "seed": self.seed,
            "best_accuracy": self.best,
            "accuracy": self.last,
            LEARNT: "" if self.learnt is None else self.learnt,
            "declines_from": self.decline,
            "epochs": self.epochs,
            "run": self.run,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Record:
        return cls(
            arm=row["arm"],
            wrong=float(row["wrong_labels"]),
            seed=int(row["seed"]),
            best=float(row["best_accuracy"]),
            last=float(row["accuracy"]),
            learnt=float(row[LEARNT]) if row[LEARNT] else None,
            decline=int(row["declines_from"]),
            epochs=int(row["epochs"]),
            run=row["run"],
        )


class Records:
    """The networks by arm, fraction of wrong labels and seed."""

    def __init__(self, records: Iterable[Record]):
        self._all = list(records)

    def __iter__(self):
        return iter(self._all)

    def fractions(self) -> list[float]:
        """Of wrong labels, rising."""
        return sorted({record.wrong for record in self._all})

    def of(self, arm: str, wrong: float) -> list[Record]:
        """The networks of an arm at one fraction."""
        return [r for r in self._all if r.arm == arm and r.wrong == wrong]

    def values(self, arm: str, wrong: float, name: str) -> dict[int, float]:
        """One field of each network, by seed."""
        found = {record.seed: getattr(record, name) for record in self.of(arm, wrong)}
        return {seed: value for seed, value in found.items() if value is not None}

    def noisy_mean(self, arm: str, name: str) -> dict[int, float]:
        """The mean over every fraction above 0, of seeds that have them all."""
        parts = [self.values(arm, wrong, name) for wrong in self.fractions() if wrong > 0]
        seeds = set.intersection(*(set(part) for part in parts)) if parts else set()
        return {seed: fmean(part[seed] for part in parts) for seed in seeds}

    def noisy(self, arm: str, other: str, name: str) -> Paired | None:
        """arm minus other, the mean over every fraction above 0."""
        return paired(self.noisy_mean(arm, name), self.noisy_mean(other, name))

    def clean(self, arm: str, other: str, name: str) -> Paired | None:
        """arm minus other without wrong labels."""
        return paired(self.values(arm, 0.0, name), self.values(other, 0.0, name))

    def widening(self, arm: str, other: str, name: str) -> Paired | None:
        """The difference with wrong labels minus the difference without, by seed."""
        ours, theirs = self.noisy_mean(arm, name), self.noisy_mean(other, name)
        clean_ours, clean_theirs = (self.values(one, 0.0, name) for one in (arm, other))
        seeds = ours.keys() & theirs.keys() & clean_ours.keys() & clean_theirs.keys()
        return paired(
            {seed: ours[seed] - theirs[seed] for seed in seeds},
            {seed: clean_ours[seed] - clean_theirs[seed] for seed in seeds},
        )
