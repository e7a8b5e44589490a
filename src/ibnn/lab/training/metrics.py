"""One line of `metrics.jsonl`: what a validation measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The state of a training after an epoch. Accuracies and fractions are between 0 and 1."""

    stage: str  # "warm-up" or "training"
    epoch: int  # of the stage, from 1
    epochs: int  # of the stage, in all
    accuracy: float  # on the validation split
    loss: float
    train_accuracy: float  # while training, over the epoch
    train_loss: float
    learning_rate: float
    lam: list[float]  # the effective one of each layer that has one; empty for a standard network
    slope: list[float]
    steps: float | None  # of the solver: the most any validation batch needed
    residual: float | None  # worst over the validation
    converged: float | None  # fraction of rows
    seconds: float  # since the line before, validation included
    images_per_second: float  # while training
    bits_per_character: float | None = None  # on the validation split, of text

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Metrics:
        """From one parsed line; fields a later version added are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})

    def to_line(self) -> str:
        return json.dumps(asdict(self), allow_nan=False)

    def __str__(self) -> str:
        lam = f", lam {' '.join(f'{value:.3f}' for value in self.lam)}" if self.lam else ""
        stage = "warm-up epoch" if self.stage == "warm-up" else "epoch"
        bits = self.bits_per_character
        value = f"{100 * self.accuracy:.1f} %" if bits is None else f"{bits:.3f} bits per character"
        return f"{stage} {self.epoch}/{self.epochs}, val {value}{lam}"


def write_lines(metrics: Iterable[Metrics]) -> str:
    """The whole of `metrics.jsonl`."""
    return "".join(line.to_line() + "\n" for line in metrics)


def read_lines(text: str) -> list[Metrics]:
    """Read `metrics.jsonl`; a last line that was cut short by a kill is left out."""
    whole, newline, _torn = text.rpartition("\n")
    return [Metrics.from_dict(json.loads(line)) for line in whole.split("\n")] if newline else []
