"""The epochs of a run, warm-up first: what is trained in each, how fast, and whether it counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.metrics import Metrics
from ibnn.lab.training.schedule import cosine, triangle


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
    warmup, last = config.warmup_epochs, config.warmup_epochs + config.epochs - 1
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


def neuron_of(config: RunConfig, index: int) -> str:
    """The neuron of the network that is trained in epoch number `index` (from 0)."""
    return "standard" if index < config.warmup_epochs else config.neuron
