"""The experiment `overfitting`: the paper's claim about memorization, where networks memorize.

The published setting (all images, 80 epochs, three channels) hardly overfits, so it tests learning
from noise. Here 2,000 images meet 200 epochs and eight channels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ibnn.lab import data
from ibnn.lab.experiments.arms import trained
from ibnn.lab.experiments.experiment import Run, Settings, less
from ibnn.lab.experiments.images import ImageExperiment, Size
from ibnn.lab.experiments.overfitting import claims
from ibnn.lab.experiments.overfitting.record import LEARNT, Record, Records
from ibnn.lab.experiments.protocol import protocol
from ibnn.lab.experiments.readings import amounts
from ibnn.lab.results import RULE, Findings, Picture
from ibnn.lab.training import Result, RunConfig, predict, prepare

CHANNELS = 8
_SIZES = {
    "smoke": Size(epochs=2, n_train=200, wrong_labels=(0.0, 0.4), seeds=2),
    "cpu": Size(epochs=100, n_train=1_000, wrong_labels=(0.0, 0.4)),
    "paper": Size(epochs=200, n_train=2_000, wrong_labels=(0.0, 0.2, 0.4, 0.6)),
}


class Overfitting(ImageExperiment):
    """Standard, implicit and mean-field networks with equal seeds and equal wrong labels."""

    name = "overfitting"
    title = "Overfitting wrong labels"
    takes_channels = False
    takes_lam = False

    def size(self, settings: Settings) -> Size:
        return _SIZES[settings.preset]

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        return [config for _, config in self._configs(settings)]

    def measure(self, run: Run) -> dict[str, Any]:
        """The fraction of wrong training labels that the network has memorized."""
        if not run.config.label_noise:
            return {}
        given = run.examples()
        clean = run.config.replace(label_noise=0.0)
        right = prepare(clean, data.load(clean.dataset, run.data_root))
        wrong = given.y_train != right.y_train
        labels, network = given.y_train[wrong], run.network()
        with torch.no_grad():
            parts = [
                predict(network(x)) for x, _ in data.batches(given.x_train[wrong], labels, 500)
            ]
        by_heart = (torch.cat(parts) == labels).double().mean()
        return {LEARNT: float(by_heart), "wrong": len(labels)}

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        compared = trained(self._configs(settings), runs)
        records = Records(Record.of(arm, run) for arm, run in compared)
        seeds = self.preset(settings).seeds
        note = f"{amounts(runs)}, {seeds} seeds of each network; median and whole range"
        return Findings(
            headline=claims.headline(records),
            pictures=[Picture("overfitting", claims.draw(records, note), CAPTION)],
            claims=claims.claims(records),
            rows=[record.row() for record in records],
            tables=[claims.table(records)],
            rule=f"{RULE} {EQUIVALENT}",
            settings=protocol(runs),
        )

    def _configs(self, settings: Settings) -> list[tuple[str, RunConfig]]:
        base = self.base(settings, channels=CHANNELS)
        return [
            (arm, base.replace(seed=seed, label_noise=wrong, neuron=arm))
            for seed in self.seeds(settings)
            for wrong in self.size(settings).wrong_labels
            for arm in claims.ARMS
        ]

    def reduced(self, settings: Settings, chosen: Size) -> list[str]:
        full, lines = _SIZES["paper"], []
        if chosen.epochs < full.epochs or chosen.n_train != full.n_train:
            lines.append(
                f"{chosen.n_train:,} images and {chosen.epochs} epochs in place of "
                f"{full.n_train:,} and {full.epochs}."
            )
        return [*lines, *less(chosen.seeds, full.seeds, "seed")]


EQUIVALENT = (
    "But a comparison that is given with its p counts as no, too, when its interval is within 0.3 "
    "points of zero: the networks are equivalent (docs/verdict-plan.md)."
)
CAPTION = (
    "Left: validation accuracy in the best epoch (solid) and after the last one (dotted). Right: "
    "the fraction of the wrong training labels that the last network predicts, i.e. has memorized."
)
