"""`result.json`: the numbers of a finished run, written last."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from ibnn.engine.native import loader
from ibnn.lab.data import Dataset
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.environment import environment
from ibnn.lab.training.metrics import Metrics
from ibnn.lab.training.network import parameter_count


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
    best, last = max(trained, key=_goodness), trained[-1]
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
        environment={
            **environment(),
            # Not asked for a standard network: the answer may take a compilation.
            "compiled_engine": loader.available() if config.neuron == "implicit" else None,
        },
    )


def _goodness(line: Metrics) -> float:
    return line.accuracy if line.bits_per_character is None else -line.bits_per_character
