"""The experiment `architectures`: the neuron and its controls in ResNet-20, a ViT and a GPT."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ibnn.lab import data
from ibnn.lab.experiments.architectures import claims, figures
from ibnn.lab.experiments.architectures.amounts import AMOUNTS, IMAGES, TEXT, arms, base
from ibnn.lab.experiments.architectures.cost import step_cost, threads
from ibnn.lab.experiments.architectures.record import COST, SECONDS, Record, by_network
from ibnn.lab.experiments.arms import trained
from ibnn.lab.experiments.experiment import (
    Experiment,
    ExperimentError,
    Preset,
    Run,
    Settings,
    less,
)
from ibnn.lab.experiments.protocol import protocol
from ibnn.lab.models import network_kind
from ibnn.lab.results import FEWEST_PAIRS, Findings, Picture, questions
from ibnn.lab.stats import counted
from ibnn.lab.training import Result, RunConfig, with_checksum

SEEDS = 5


class Architectures(Experiment):
    """Networks of equal seeds: same initial weights, data order, augmentation and schedule."""

    name = "architectures"
    title = "The neuron in ResNet-20, ViT and GPT"
    datasets = ("cifar10", "kjv", "digits", "sums", "*")
    smoke_dataset = "digits"
    presets: ClassVar = {
        name: Preset(seeds=2 if name == "smoke" else SEEDS, epochs=2 if name == "smoke" else 100)
        for name in AMOUNTS
    }

    def networks(self, settings: Settings) -> tuple[str, ...]:
        """Those the dataset is for: a ResNet and a ViT for images, a GPT for text."""
        defaults = data.defaults(self.dataset(settings))
        if defaults.text:
            return TEXT
        if defaults.image_shape is None or len(defaults.image_shape) == 3:
            return IMAGES
        raise ExperimentError(
            f"dataset of {self.name} is {self.dataset(settings)!r}, expected images or text"
        )

    def check(self, settings: Settings) -> None:
        super().check(settings)
        self.networks(settings)

    def preset(self, settings: Settings) -> Preset:
        """The longest training of this dataset's networks; what is less than the recipes."""
        chosen = super().preset(settings)
        bases = [self._base(settings, name) for name in self.networks(settings)]
        reduced = [line for config in bases for line in _reduced(config, settings.preset)]
        reduced += less(chosen.seeds, SEEDS, "seed")
        epochs = max(config.epochs for config in bases)
        return Preset(seeds=chosen.seeds, epochs=epochs, reduced=tuple(reduced))

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        return [config for _, config in self._compared(settings)]

    def measure(self, run: Run) -> dict[str, Any]:
        """What a training step costs."""
        seconds, cost = step_cost(run.network(), run.config, run.examples())
        return {SECONDS: seconds, COST: cost, "threads": threads()}

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        compared = trained(self._compared(settings), runs)
        records = [Record.of(arm, run) for arm, run in compared]
        found = by_network(records)
        used = runs[0].measured["threads"]
        note = f"{self.dataset(settings)}; number of networks in brackets; medians over seeds"
        return Findings(
            headline=claims.headline(found),
            pictures=[Picture(self.name, figures.draw(found, note), CAPTION)],
            claims=questions(claims.claims(found)),
            rows=[record.row() for record in records],
            tables=[
                made(group) for group in found.values() for made in (claims.table, claims.lam_table)
            ],
            notes=[f"Steps were timed with {counted(used, 'thread')}."],
            rule=RULE,
            settings=[line for name in found for line in _lines(name, runs)],
        )

    def _base(self, settings: Settings, network: str) -> RunConfig:
        return base(network, self.dataset(settings), settings.preset, settings.epochs)

    def _compared(self, settings: Settings) -> list[tuple[str, RunConfig]]:
        """Seed by seed: whatever has finished is paired."""
        standard = {name: self._base(settings, name) for name in self.networks(settings)}
        return [
            (arm, with_checksum(config))
            for seed in self.seeds(settings)
            for one in standard.values()
            for arm, config in arms(one.replace(seed=seed)).items()
        ]


def _reduced(config: RunConfig, preset: str) -> list[str]:
    name = claims.NAMES[config.network]
    if preset == "paper":  # the recipe, but for epochs
        full = network_kind(config.network).recipe["epochs"]
        return [f"{name}: {line}" for line in less(config.epochs, full, "epoch")]
    sizes = f"{config.n_train:,} training and {config.n_test:,} test examples"
    return [f"{name}: the first {sizes}, {config.epochs} epochs."]


def _lines(network: str, runs: Sequence[Run]) -> list[tuple[str, str]]:
    """How one architecture was trained, each line under its name."""
    own = [run for run in runs if run.config.network == network]
    return [(f"{claims.NAMES[network]}: {name}", text) for name, text in protocol(own)]


CAPTION = (
    "Left: the measure after every epoch, the median of each arm. Middle: each arm minus the "
    "standard network of equal seed in the best epoch, mean and 95 % interval, not corrected; to "
    "the right is better. Right: lam of every layer after training, networks as dots, medians as "
    "lines."
)
RULE = (
    "The rule was written before the runs: docs/verdict-plan.md. Differences are of equal seeds; "
    f"yes and no need at least {FEWEST_PAIRS} pairs and p below 0.05 (Student's paired t; Holm's "
    "correction over both controls); equivalent is an interval within 0.3 points or 0.01 bits per "
    "character, and counts as no. Architectures are not corrected for each other."
)
