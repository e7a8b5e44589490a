"""The paper's image networks: which network for which dataset, and how much of it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ibnn.lab.experiments.experiment import Experiment, Preset, Settings
from ibnn.lab.training import RunConfig, with_checksum

# The published protocol.
EPOCHS = 80
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
WRONG_LABELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6)


@dataclass(frozen=True)
class Central:
    """The configuration UCN(layers, channels) all experiments of a dataset gravitate around."""

    layers: int = 1
    channels: int = 3
    widths: tuple[int, ...] = (1, 2, 3, 4, 6, 8)  # channels of the expressivity figure


_SVHN = Central(2, 3)
_CENTRAL = {
    "fashion-mnist": Central(1, 3),
    "svhn": _SVHN,
    "svhn-resplit": _SVHN,
    "cifar10": Central(3, 8, (2, 4, 8, 12, 16)),
}


@dataclass(frozen=True)
class Size:
    """How much is trained in a preset: examples, epochs and the values on the x axes."""

    epochs: int = EPOCHS
    n_train: int | None = None
    n_test: int | None = None
    shares: tuple[float, ...] = SHARES
    wrong_labels: tuple[float, ...] = WRONG_LABELS
    widths: tuple[int, ...] | None = None  # None: those of the paper's protocol
    seeds: int = 5  # of both neurons, unless an experiment trains more standard networks


_SHORT = {
    "shares": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
    "wrong_labels": (0.0, 0.2, 0.4, 0.6),
}
_SVHN_SHORT = {
    "widths": (1, 2, 3),
    "shares": (0.1, 0.2, 0.4, 0.7, 1.0),
    "wrong_labels": (0.0, 0.4),
}
# Each experiment and dataset ends within half an hour on two cores.
_CPU = {
    "digits": Size(20, widths=(1, 2, 3, 4), **_SHORT),
    "fashion-mnist": Size(20, 10_000, 5_000, widths=(1, 2, 3, 4, 6), **_SHORT),
    "svhn": Size(20, 10_000, 3_000, **_SVHN_SHORT),
    "svhn-resplit": Size(20, **_SVHN_SHORT),
    "cifar10": Size(10, 3_000, 2_000, widths=(2, 4, 8), **_SHORT),
}
_SMOKE = Size(2, 256, 128, shares=(0.5, 1.0), wrong_labels=(0.0, 0.4), widths=(1, 3), seeds=2)


class ImageExperiment(Experiment):
    """An experiment on UCN networks; any dataset of images will do.

    Experiments of one dataset and preset use the same sizes, so that they share their runs.
    """

    datasets = ("fashion-mnist", "svhn", "svhn-resplit", "cifar10", "digits", "*")
    presets: ClassVar = {
        "smoke": Preset(seeds=2, epochs=2),
        "cpu": Preset(seeds=5, epochs=20),
        "paper": Preset(seeds=5, epochs=EPOCHS),
    }
    standard_seeds: ClassVar[int] = 5  # instances of the standard network in preset paper
    takes_lam = True

    def central(self, settings: Settings) -> Central:
        """The configuration of this dataset; of an unknown one, that of Fashion-MNIST."""
        return _CENTRAL.get(Path(self.dataset(settings)).stem, Central())

    def size(self, settings: Settings) -> Size:
        """How much this preset trains on this dataset."""
        if settings.preset == "paper":
            return Size()
        if settings.preset == "smoke":
            return _SMOKE
        return _CPU.get(self.dataset(settings), _CPU["fashion-mnist"])

    def preset(self, settings: Settings) -> Preset:
        size = self.size(settings)
        seeds, epochs = settings.seeds or size.seeds, settings.epochs or size.epochs
        return Preset(seeds=seeds, epochs=epochs, reduced=self._reduced(settings, seeds, epochs))

    def instances(self, settings: Settings) -> int:
        """How many standard networks are trained; the first seeds pair with implicit ones."""
        chosen = settings.seeds or self.size(settings).seeds
        return max(chosen, self.standard_seeds) if self._is_full(settings) else chosen

    def base(self, settings: Settings, **changes: Any) -> RunConfig:
        """The standard network of this dataset; seed, neuron and the rest as `changes` say."""
        central, size = self.central(settings), self.size(settings)
        config = RunConfig(
            dataset=self.dataset(settings),
            layers=central.layers,
            channels=central.channels,
            epochs=settings.epochs or size.epochs,
            n_train=size.n_train,
            n_test=size.n_test,
        )
        return with_checksum(config.replace(**changes))

    def _is_full(self, settings: Settings) -> bool:
        return settings.preset == "paper" and settings.seeds is None

    def _reduced(self, settings: Settings, seeds: int, epochs: int) -> tuple[str, ...]:
        """What is less than in the paper, for readers."""
        size, lines = self.size(settings), []
        if settings.preset == "smoke":
            lines.append("Preset smoke shows that everything runs; its numbers mean nothing.")
        if size.n_train:
            test = f" and the first {size.n_test:,} test images" if size.n_test else ""
            lines.append(f"The first {size.n_train:,} training images{test} are used.")
        if epochs < EPOCHS:
            lines.append(
                f"{epochs} epochs in place of {EPOCHS}; the triangle of the learning rate is "
                "squeezed."
            )
        if not self._is_full(settings):
            lines.append(
                f"{seeds} seeds of each network; the paper has {self.standard_seeds} standard and "
                "5 implicit ones."
            )
        if self.dataset(settings) == "svhn-resplit":
            lines.append(
                "10,000 of SVHN's test images, split 8,000 to 2,000, stand in for SVHN and its "
                "73,257 training images."
            )
        return tuple(lines)
