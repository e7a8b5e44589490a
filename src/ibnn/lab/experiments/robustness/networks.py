"""The networks under attack: those of the accuracy experiments, and implicit ones of lam < 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import EPOCHS, ImageExperiment
from ibnn.lab.experiments.lam_modes import fixed
from ibnn.lab.stats import Band, band, percent
from ibnn.lab.training import Result, RunConfig
from ibnn.lab.training.seeds import generator

NEGATIVE_LAM = -0.2
IMAGES = 1000  # attacked, wherever less than the whole dataset is used

STANDARD, LEARNT, NEGATIVE = "standard", "implicit, λ learnt", f"implicit, λ = {NEGATIVE_LAM:g}"


class RobustnessExperiment(ImageExperiment):
    """Standard networks beside implicit ones with learnt and with negative lam, equal seeds.

    Nothing is trained for an attack alone: `learning-speed` has the same runs.
    """

    takes_lam = False

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        runs = self._configs(settings)
        return [config for group in runs.values() for config in group.values()]

    def groups(self, settings: Settings, runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
        """The finished runs by group and seed."""
        found = {run.config.identity(): run for run in runs}
        return {
            name: {
                seed: found[config.identity()]
                for seed, config in group.items()
                if config.identity() in found
            }
            for name, group in self._configs(settings).items()
        }

    def _configs(self, settings: Settings) -> dict[str, dict[int, RunConfig]]:
        seeds = range(self.preset(settings).seeds)
        implicit = {seed: self.base(settings, seed=seed, neuron="implicit") for seed in seeds}
        return {
            STANDARD: {seed: self.base(settings, seed=seed) for seed in seeds},
            LEARNT: implicit,
            NEGATIVE: {seed: fixed(run, (NEGATIVE_LAM,)) for seed, run in implicit.items()},
        }


def attacked_images(run: Run) -> tuple[Tensor, Tensor]:
    """The test images a network is attacked on, in [0, 1], with their labels."""
    split = run.examples()
    number = IMAGES if run.config.epochs < EPOCHS else None  # all in preset paper
    x, y = split.x_test[:number], split.y_test[:number]
    return (x.float() / 255 if x.dtype == torch.uint8 else x), y


def randomness(run: Run, attack: str) -> torch.Generator:
    """Random numbers that depend on the seed and the attack: twins face the same ones."""
    return generator(run.config.seed, attack)


def whole_range(values: Sequence[float]) -> Band:
    """Median and full range, as the paper draws attacks."""
    return band(values, 1.0)


def lam_of(runs: Mapping[int, Run]) -> str:
    """The lam of a group of networks, the median of each layer."""
    learnt = [run.result.lam for run in runs.values() if run.result.lam]
    if not learnt:
        return "none"
    return ", ".join(f"{whole_range(values).median:.3f}" for values in zip(*learnt, strict=True))


def clean_gap(groups: Mapping[str, Mapping[int, Run]]) -> str:
    """How far apart the networks are before any attack."""
    parts = [
        f"{name} {percent(whole_range([r.result.accuracy for r in runs.values()]).median)}"
        for name, runs in groups.items()
        if runs
    ]
    return "Clean accuracy on the whole validation split, medians: " + ", ".join(parts) + "."


NOTES = (
    "Both neurons face the same white-box attack with their exact input gradients. The paper "
    "attacked the standard network so, but its own only through the gradients of its λ = 0 twin, "
    "which is drawn here as transfer, beside the white-box curve.",
    "The networks are those after the last epoch, not the best epoch; nothing was trained to "
    "resist attacks.",
    "Networks differ in clean accuracy, and a more accurate one starts higher: the drop from the "
    "clean accuracy stands beside the accuracy that is left.",
    "Bands and bars are the median and the whole range of the networks, as in the paper. Yes and "
    "no need at least five pairs of seeds and a 95 % confidence interval that excludes zero.",
)
