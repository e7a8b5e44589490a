"""The epochs of a run, warm-up first: what is trained in each, how fast, and whether it counts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.result import Metrics


def triangle(epoch: int, epochs: int, low: float, high: float) -> float:
    """The learning rate of `epoch` (from 0) in a run of `epochs`.

    A straight line up over the first half, its mirror image over the second: the paper's 80
    epochs touch `high` in epochs 39 and 40; shorter runs squeeze the same triangle. One or two
    epochs leave no room for a slope and use `high`.

    >>> [round(triangle(epoch, 5, 0.001, 0.01), 4) for epoch in range(5)]
    [0.001, 0.0055, 0.01, 0.0055, 0.001]
    """
    if not 0 <= epoch < epochs:
        raise ValueError(f"epoch is {epoch}, expected 0 to {epochs - 1}")
    peak = (epochs - 1) // 2
    if peak == 0:
        return high
    up = min(epoch, epochs - 1 - epoch) / peak
    return (1 - up) * low + up * high


def cosine(done: float, low: float, high: float, warmup: float = 0.0) -> float:
    """The learning rate when the fraction `done` of a training is done.

    A straight line from `low` to `high` over the fraction `warmup`, then half a cosine back.

    >>> [round(cosine(done, 0.0, 1.0, warmup=0.2), 3) for done in (0.0, 0.1, 0.2, 0.6, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if not 0 <= done <= 1:
        raise ValueError(f"done is {done}, expected a number in [0, 1]")
    if done < warmup:
        return low + (high - low) * done / warmup
    angle = math.pi * (done - warmup) / (1 - warmup)
    return low + (high - low) * (1 + math.cos(angle)) / 2


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One epoch of a run."""

    index: int  # from 0, warm-up included
    stage: str  # "warm-up" or "training"
    number: int  # of the stage, from 1
    of: int  # epochs of the stage
    rate: float  # the learning rate at its beginning
    neuron: str  # of the network that is trained
    switches: bool  # the run's own network takes over from the one of the warm-up
    validated: bool
    last: bool

    def __str__(self) -> str:
        return f"{self.stage} epoch {self.number}"

    def rate_at(self, config: RunConfig, within: float) -> float:
        """The learning rate when the fraction `within` of this epoch is done."""
        if config.schedule == "triangle" or self.stage == "warm-up":
            return self.rate
        done = (self.number - 1 + within) / self.of
        return cosine(done, config.lr_low, config.lr_high, config.lr_warmup)

    def metrics(self, **measured: Any) -> Metrics:
        """What was measured after it, as a line of `metrics.jsonl`."""
        return Metrics(
            stage=self.stage,
            epoch=self.number,
            epochs=self.of,
            learning_rate=self.rate,
            **measured,
        )


def epochs(config: RunConfig, first: int = 0) -> Iterator[Epoch]:
    """Every epoch from number `first` (from 0) to the last.

    Warm-up epochs train a standard network at the lowest learning rate; those after it follow
    the schedule from its beginning. The warm-up and the last epoch are always validated.

    >>> config = RunConfig(dataset="digits", epochs=3, warmup_epochs=1, neuron="implicit")
    >>> [(str(epoch), epoch.neuron, epoch.rate) for epoch in epochs(config)][:2]
    [('warm-up epoch 1', 'standard', 0.001), ('training epoch 1', 'implicit', 0.001)]
    """
    warmup, last = config.warmup_epochs, total_epochs(config) - 1
    for index in range(first, last + 1):
        warming = index < warmup
        number = index + 1 if warming else index - warmup + 1
        rate = config.lr_low
        if not warming and config.schedule == "triangle":
            rate = triangle(number - 1, config.epochs, config.lr_low, config.lr_high)
        elif not warming:
            done = (number - 1) / config.epochs
            rate = cosine(done, config.lr_low, config.lr_high, config.lr_warmup)
        yield Epoch(
            index=index,
            stage="warm-up" if warming else "training",
            number=number,
            of=warmup if warming else config.epochs,
            rate=rate,
            neuron=neuron_of(config, index),
            switches=index == warmup and index > first,
            validated=warming or index == last or number % config.validate_every == 0,
            last=index == last,
        )


def total_epochs(config: RunConfig) -> int:
    """How many epochs a run has, warm-up included."""
    return config.warmup_epochs + config.epochs


def epochs_done(config: RunConfig, metrics: Metrics) -> int:
    """How many of them are done after the epoch of these metrics."""
    return metrics.epoch + (config.warmup_epochs if metrics.stage == "training" else 0)


def epochs_since(config: RunConfig, metrics: Metrics) -> int:
    """How many epochs the seconds of these metrics cover: those since the validation before."""
    if metrics.stage == "warm-up":
        return 1
    return (metrics.epoch - 1) % config.validate_every + 1


def neuron_of(config: RunConfig, index: int) -> str:
    """The neuron of the network that is trained in epoch number `index` (from 0)."""
    return "standard" if index < config.warmup_epochs else config.neuron
