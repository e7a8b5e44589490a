"""What is kept of a run under the whole suite: the controls' record, and every attack's result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ibnn.lab.experiments.controls.record import Record, Records
from ibnn.lab.experiments.experiment import Run

SUITE, SUITE_EPS, SUITE_IMAGES = "suite", "suite_eps", "suite_images"
CLEAN, WORST, EXACT = "none", "all", "all but intermediate"
_PREFIX = "under: "


@dataclass(frozen=True)
class SuiteRecord(Record):
    """One network. `under` is the accuracy under each attack by name, and `CLEAN` without any,
    `WORST` under all of them, `EXACT` under those that need no unfinished solve."""

    under: Mapping[str, float] = field(default_factory=dict)
    eps: float = 0.0
    images: int = 0

    @classmethod
    def of(cls, arm: str, run: Run) -> SuiteRecord:
        measured = run.measured
        return cls(
            **vars(Record.of(arm, run)),
            under=measured[SUITE],
            eps=measured[SUITE_EPS],
            images=measured[SUITE_IMAGES],
        )

    def row(self) -> dict[str, Any]:
        under = {f"{_PREFIX}{name}": value for name, value in self.under.items()}
        return {**super().row(), SUITE_EPS: self.eps, SUITE_IMAGES: self.images, **under}

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> SuiteRecord:
        found = {k.removeprefix(_PREFIX): v for k, v in row.items() if k.startswith(_PREFIX)}
        return cls(
            **vars(Record.from_row(row)),
            under={name: float(value) for name, value in found.items() if value},
            eps=float(row[SUITE_EPS]),
            images=int(row[SUITE_IMAGES]),
        )


def suite_records(records: Records, arm: str) -> list[SuiteRecord]:
    """The networks of an arm, by seed."""
    return [record for record in records.of(arm) if isinstance(record, SuiteRecord)]


def accuracy_under(records: Records, arm: str, attack: str = WORST) -> dict[int, float]:
    """Accuracy under an attack by seed, of the networks that met it."""
    found = suite_records(records, arm)
    return {record.seed: record.under[attack] for record in found if attack in record.under}
