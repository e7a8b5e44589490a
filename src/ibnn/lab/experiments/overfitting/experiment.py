"""The experiment `overfitting`: the paper's claim about memorization, where networks memorize.

The published setting (all images, 80 epochs, three channels) hardly overfits, so it tests learning
from noise. Here 2,000 images meet 200 epochs and eight channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ibnn.lab import data
from ibnn.lab.experiments.experiment import Preset, Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.overfitting import claims, figures
from ibnn.lab.experiments.overfitting.record import LEARNT, Record, Records
from ibnn.lab.results import Findings, Picture
from ibnn.lab.training import Result, RunConfig, predict, prepare

CHANNELS = 8


@dataclass(frozen=True)
class Amount:
    """How much is trained."""

    epochs: int
    images: int
    wrong: tuple[float, ...]
    seeds: int = 5


AMOUNTS = {
    "smoke": Amount(2, 200, (0.0, 0.4), seeds=2),
    "cpu": Amount(100, 1_000, (0.0, 0.4)),
    "paper": Amount(200, 2_000, (0.0, 0.2, 0.4, 0.6)),
}


class Overfitting(ImageExperiment):
    """Standard, implicit and mean-field networks with equal seeds and equal wrong labels."""

    name = "overfitting"
    title = "Overfitting wrong labels"
    takes_lam = False
    presets: ClassVar = {
        name: Preset(seeds=amount.seeds, epochs=amount.epochs) for name, amount in AMOUNTS.items()
    }

    def preset(self, settings: Settings) -> Preset:
        amount = AMOUNTS[settings.preset]
        epochs = settings.epochs or amount.epochs
        full = AMOUNTS["paper"]
        reduced = []
        if settings.preset == "smoke":
            reduced.append("Preset smoke shows that everything runs; its numbers mean nothing.")
        if epochs < full.epochs or amount.images < full.images:
            reduced.append(
                f"{amount.images:,} images and {epochs} epochs in place of {full.images:,} and "
                f"{full.epochs}."
            )
        return Preset(seeds=settings.seeds or amount.seeds, epochs=epochs, reduced=tuple(reduced))

    def base(self, settings: Settings, **changes: Any) -> RunConfig:
        amount = AMOUNTS[settings.preset]
        config = RunConfig(
            dataset=self.dataset(settings),
            layers=self.defaults(settings).layers,
            channels=CHANNELS,
            n_train=amount.images,
            epochs=self.preset(settings).epochs,
        )
        return config.replace(**changes)

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        return [config for _, config in self._configs(settings)]

    def measure(self, run: Run) -> dict[str, Any]:
        """The fraction of wrong training labels that the network gives back."""
        if not run.config.label_noise:
            return {}
        given = run.examples()
        right = prepare(
            run.config.replace(label_noise=0.0), data.load(run.config.dataset, run.data_root)
        )
        wrong = given.y_train != right.y_train
        x, network = given.x_train[wrong], run.network()
        with torch.no_grad():
            parts = [
                predict(network(images)) for images, _ in data.batches(x, given.y_train[wrong], 500)
            ]
        by_heart = (torch.cat(parts) == given.y_train[wrong]).double().mean()
        return {LEARNT: float(by_heart), "wrong": int(wrong.sum())}

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        by_name = {run.config.identity(): run for run in runs}
        records = Records(
            Record.of(arm, by_name[config.identity()])
            for arm, config in self._configs(settings)
            if config.identity() in by_name
        )
        config, preset = self.base(settings), self.preset(settings)
        note = (
            f"UCN({config.layers},{config.channels}), {config.n_train:,} images, {preset.epochs} "
            f"epochs, {preset.seeds} seeds; median and whole range"
        )
        return Findings(
            headline=claims.headline(records),
            pictures=[Picture("overfitting", figures.draw(records, note), CAPTION)],
            claims=claims.claims(records),
            rows=[record.row() for record in records],
            tables=[claims.table(records)],
            notes=NOTES,
            settings=[
                ("Network", f"UCN({config.layers},{config.channels})"),
                ("Images", f"the first {config.n_train:,} for training, all for validation"),
                ("Training", f"{preset.epochs} epochs, otherwise the published protocol"),
            ],
        )

    def _configs(self, settings: Settings) -> list[tuple[str, RunConfig]]:
        return [
            (arm, self.base(settings, seed=seed, label_noise=wrong, neuron=arm))
            for seed in range(self.preset(settings).seeds)
            for wrong in AMOUNTS[settings.preset].wrong
            for arm in claims.ARMS
        ]


CAPTION = (
    "Left: validation accuracy in the best epoch (solid) and after the last one (dotted). Right: "
    "how many of the wrong training labels the last network gives back; one that learnt nothing "
    "of them gives back few."
)
NOTES = (
    "The paper's claim is about wrong labels; its setting hardly overfits. This one is ours.",
    "Networks of equal seed have the same images and the same wrong labels. Validation labels are "
    "right.",
    "Yes and no need at least five pairs of seeds and a 95 % confidence interval that excludes "
    "zero; intervals are not corrected for the number of comparisons.",
)
