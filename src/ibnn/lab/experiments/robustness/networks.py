"""The networks under attack: those of the accuracy figures, and implicit ones of lam < 0."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from statistics import median

import torch
from torch import Tensor, nn

from ibnn.lab import data
from ibnn.lab.experiments.arms import NEGATIVE_LAM, STANDARD
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import ImageExperiment, Size, preset_of
from ibnn.lab.experiments.lam_modes import fixed
from ibnn.lab.experiments.protocol import protocol
from ibnn.lab.experiments.readings import amounts, finished, last_accuracy, readings
from ibnn.lab.models.few_channels import use_compiled_convolution
from ibnn.lab.plotting import style
from ibnn.lab.results import Claim, Findings, Picture, Table
from ibnn.lab.stats import percent
from ibnn.lab.training import Result, RunConfig
from ibnn.lab.training.seeds import generator

IMAGES = 1000  # attacked, but in preset paper where it is not too expensive

LEARNT, NEGATIVE = "implicit, λ learnt", f"implicit, λ = {NEGATIVE_LAM:g}"
COLORS = {STANDARD: style.STANDARD, LEARNT: style.IMPLICIT, NEGATIVE: style.OTHER}

IS_ROBUST = "the implicit-bias network is {} robust than the standard one"

Groups = Mapping[str, Mapping[int, Run]]


class RobustnessExperiment(ImageExperiment):
    """Standard networks beside implicit ones with learnt and with negative lam, equal seeds.

    Nothing is trained for an attack alone: `learning-speed` has the same runs.
    """

    takes_lam = False

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        runs = self._configs(settings)
        return [config for group in runs.values() for config in group.values()]

    @abstractmethod
    def picture(self, groups: Groups, note: str) -> Picture:
        """The figure."""

    @abstractmethod
    def headline(self, groups: Groups) -> str:
        """The finding in a sentence or two."""

    @abstractmethod
    def claims(self, groups: Groups, name: str) -> list[Claim]:
        """What the paper says of one group of implicit networks, and what was measured."""

    @abstractmethod
    def rows(self, name: str, seed: int, run: Run) -> list[dict[str, object]]:
        """The lines of one run in the CSV."""

    @abstractmethod
    def table(self, groups: Groups) -> Table:
        """Median robust accuracies."""

    @abstractmethod
    def attack_lines(self, runs: Sequence[Run]) -> list[tuple[str, str]]:
        """What the networks were attacked with, for the settings."""

    def notes(self, groups: Groups) -> list[str]:
        """What was measured besides."""
        return [clean_accuracy(groups)]

    def reduced(self, settings: Settings, chosen: Size) -> list[str]:
        lines = super().reduced(settings, chosen)
        if settings.preset == "paper" and not _attacks_all("paper", self.dataset(settings)):
            lines.append(f"The first {IMAGES:,} test images are attacked.")
        return lines

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        groups = self.groups(settings, runs)
        images = max(run.measured["images"] for run in runs)
        note = (
            f"{_networks(groups)}, {amounts(runs)}, the first {images:,} attacked; "
            "median and whole range"
        )
        return Findings(
            headline=self.headline(groups),
            pictures=[self.picture(groups, note)],
            claims=[c for name in (LEARNT, NEGATIVE) for c in self.claims(groups, name)],
            rows=[
                row
                for name, group in groups.items()
                for seed, run in group.items()
                for row in self.rows(name, seed, run)
            ],
            tables=[self.table(groups)],
            notes=self.notes(groups),
            settings=[*self.attack_lines(runs), *protocol(runs)],
        )

    def groups(self, settings: Settings, runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
        """The finished runs by group and seed."""
        return {name: finished(group, runs) for name, group in self._configs(settings).items()}

    def _configs(self, settings: Settings) -> dict[str, dict[int, RunConfig]]:
        seeds = self.seeds(settings)
        implicit = {seed: self.base(settings, seed=seed, neuron="implicit") for seed in seeds}
        return {
            STANDARD: {seed: self.base(settings, seed=seed) for seed in seeds},
            LEARNT: implicit,
            NEGATIVE: {seed: fixed(run, (NEGATIVE_LAM,)) for seed, run in implicit.items()},
        }


def attacked_images(run: Run) -> tuple[Tensor, Tensor]:
    """The test images a network is attacked on, in [0, 1], with their labels."""
    split = run.examples()
    number = None if _attacks_all(preset_of(run.config), run.config.dataset) else IMAGES
    x, y = split.x_test[:number], split.y_test[:number]
    return next(data.batches(x, y, len(x)))


def _attacks_all(preset: str, dataset: str) -> bool:
    return preset == "paper" and not data.defaults(dataset).expensive


def attacked_network(run: Run) -> nn.Module:
    """The network of a run, made quick: an attack calls it thousands of times."""
    return use_compiled_convolution(run.network())


def randomness(run: Run, attack: str) -> torch.Generator:
    """Random numbers that depend on the seed and the attack: twins face the same ones."""
    return generator(run.config.seed, attack)


def clean_accuracy(groups: Groups) -> str:
    """How far apart the networks are before any attack."""
    parts = [
        f"{name} {percent(median(readings(runs, last_accuracy).values()))}"
        for name, runs in groups.items()
        if runs
    ]
    return "Clean accuracy on the whole validation split, medians: " + ", ".join(parts) + "."


def _networks(groups: Groups) -> str:
    """How many networks there are of each kind, for a figure."""
    counts = {name: len(group) for name, group in groups.items() if group}
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values()))} networks of each kind"
    return "networks: " + "; ".join(f"{count} {name}" for name, count in counts.items())
