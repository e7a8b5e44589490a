"""What a run measured: a line of `metrics.jsonl` for each validation, `result.json` at its end."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from torch import nn

from ibnn.engine.native import loader
from ibnn.lab.data import Dataset
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.environment import environment
from ibnn.lab.training.network import parameter_count


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

    @property
    def score(self) -> float:
        """What is compared: larger is better, of accuracy or, of text, of bits per character."""
        return self.accuracy if self.bits_per_character is None else -self.bits_per_character

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


@dataclass(frozen=True, kw_only=True)
class Result:
    """Accuracies are between 0 and 1 and count the epochs after the warm-up.

    Of text the best epoch is the one with the fewest bits per character.
    """

    identity: str
    title: str
    best_accuracy: float
    best_epoch: int  # the first one with the best accuracy, from 1
    accuracy: float  # after the last epoch
    loss: float
    train_accuracy: float
    train_loss: float
    epochs: int
    lam: list[float]
    slope: list[float]
    parameters: int
    n_train: int
    n_test: int
    data: str  # checksum of the examples
    seconds: float  # over all epochs, also those before a kill
    environment: dict[str, Any]  # `threads_used`, `devices_used`: several if it was resumed so
    version: int = 1
    best_bits_per_character: float | None = None  # of text

    @property
    def best(self) -> str:
        """The measure of the best epoch, for people."""
        bits = self.best_bits_per_character
        return (
            f"{100 * self.best_accuracy:.1f} %"
            if bits is None
            else f"{bits:.3f} bits per character"
        )

    @property
    def last(self) -> str:
        """The measure after the last epoch, for people."""
        if self.best_bits_per_character is None:
            return f"{100 * self.accuracy:.1f} %"
        return f"{self.loss / math.log(2):.3f}"


def summarize(
    config: RunConfig,
    split: Dataset,
    data: str,
    network: nn.Module,
    metrics: Sequence[Metrics],
) -> Result:
    """The result of a run from everything it measured."""
    trained = [line for line in metrics if line.stage == "training"]
    best, last = max(trained, key=lambda line: line.score), trained[-1]
    return Result(
        identity=config.identity(),
        title=config.title(),
        best_accuracy=best.accuracy,
        best_epoch=best.epoch,
        accuracy=last.accuracy,
        loss=last.loss,
        train_accuracy=last.train_accuracy,
        train_loss=last.train_loss,
        epochs=config.epochs,
        lam=last.lam,
        slope=last.slope,
        parameters=parameter_count(network),
        best_bits_per_character=best.bits_per_character,
        n_train=len(split.x_train),
        n_test=len(split.x_test),
        data=data,
        seconds=sum(line.seconds for line in metrics),
        # standard networks have its convolutions, too
        environment={**environment(), "compiled_engine": loader.available()},
    )
