"""Experiments on image networks: which network for which dataset, and how much of it is trained."""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from ibnn.lab import data
from ibnn.lab.experiments.experiment import Experiment, ExperimentError, Preset, Settings, less
from ibnn.lab.training import RunConfig, with_checksum

# The published protocol.
EPOCHS = 80
IMPLICIT_SEEDS = 5
FRACTIONS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
WRONG_LABELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is trained: examples, epochs, seeds and the values on the x axes."""

    epochs: int = EPOCHS
    n_train: int | None = None
    n_test: int | None = None
    fractions: tuple[float, ...] = FRACTIONS
    wrong_labels: tuple[float, ...] = WRONG_LABELS
    widths: tuple[int, ...] = ()
    seeds: int = IMPLICIT_SEEDS  # of both neurons, unless more standard networks are trained


SMOKE = Size(
    epochs=2,
    n_train=256,
    n_test=128,
    fractions=(0.5, 1.0),
    wrong_labels=(0.0, 0.4),
    widths=(1, 3),
    seeds=2,
)


def preset_of(config: RunConfig) -> str:
    """The preset a run was planned in, by the images it has.

    Where `cpu` takes the whole dataset too, it and `paper` share their runs of equal epochs: those
    of fewer than published are taken for its own.

    >>> preset_of(RunConfig(dataset="mnist", epochs=2))
    'paper'
    """
    images = config.n_train, config.n_test
    if images == (SMOKE.n_train, SMOKE.n_test):
        return "smoke"
    if images != (None, None):
        return "cpu"
    cpu = data.defaults(config.dataset).cpu
    shared = (cpu.n_train, cpu.n_test) == images
    return "cpu" if shared and config.epochs < EPOCHS else "paper"


class ImageExperiment(Experiment):
    """An experiment on UCN networks; any dataset of images will do.

    Experiments of one dataset and preset use the same sizes, so that they share their runs.
    """

    datasets = ("fashion-mnist", "svhn", "svhn-resplit", "cifar10", "digits", "*")
    smoke_dataset = "digits"  # comes with the laboratory: no download
    # by name alone: how much each of them trains is for `size` to say
    presets: ClassVar = dict.fromkeys(
        ("smoke", "cpu", "paper"), Preset(seeds=IMPLICIT_SEEDS, epochs=EPOCHS)
    )
    standard_seeds: ClassVar[int] = IMPLICIT_SEEDS  # standard networks in preset paper
    takes_channels = True
    takes_lam = True

    def defaults(self, settings: Settings) -> data.Defaults:
        """What this dataset is by default: its network, attacks and sizes."""
        return data.defaults(self.dataset(settings))

    def check(self, settings: Settings) -> None:
        super().check(settings)
        shape = self.defaults(settings).image_shape
        if shape is not None and len(shape) != 3:
            raise ExperimentError(
                f"dataset of {self.name} is {self.dataset(settings)!r}, whose examples have shape "
                f"{shape}, expected images"
            )

    def size(self, settings: Settings) -> Size:
        """How much this preset trains on this dataset, before the user's own numbers."""
        if settings.preset == "smoke":
            return SMOKE
        defaults = self.defaults(settings)
        if settings.preset == "paper":
            return Size(widths=defaults.widths)
        return Size(**asdict(defaults.cpu))

    def chosen(self, settings: Settings) -> Size:
        """How much is trained: `size`, with the user's own seeds and epochs."""
        size = self.size(settings)
        return replace(
            size, seeds=settings.seeds or size.seeds, epochs=settings.epochs or size.epochs
        )

    def preset(self, settings: Settings) -> Preset:
        chosen, reduced = self.chosen(settings), []
        usual, stands_in = self.usual_channels(settings), self.defaults(settings).stands_in
        if settings.channels not in (None, usual):
            reduced.append(f"{settings.channels} channels in place of {usual}.")
        reduced += self.reduced(settings, chosen)
        if stands_in:
            reduced.append(stands_in)
        return Preset(seeds=chosen.seeds, epochs=chosen.epochs, reduced=tuple(reduced))

    def instances(self, settings: Settings) -> int:
        """How many standard networks are trained; the first seeds pair with implicit ones."""
        seeds = self.chosen(settings).seeds
        return max(seeds, self.standard_seeds) if self.all_seeds(settings) else seeds

    def base(self, settings: Settings, **changes: Any) -> RunConfig:
        """The standard network of this dataset; seed, neuron and the rest as `changes` say."""
        defaults, chosen = self.defaults(settings), self.chosen(settings)
        config = RunConfig(
            dataset=self.dataset(settings),
            layers=defaults.layers,
            channels=settings.channels or self.usual_channels(settings),
            epochs=chosen.epochs,
            n_train=chosen.n_train,
            n_test=chosen.n_test,
        )
        return with_checksum(config.replace(**changes))

    def usual_channels(self, settings: Settings) -> int:
        """Of every layer, unless the user has another number."""
        return self.defaults(settings).channels

    def all_seeds(self, settings: Settings) -> bool:
        """Whether there are as many networks as published."""
        return settings.preset == "paper" and settings.seeds is None

    def reduced(self, settings: Settings, chosen: Size) -> list[str]:
        """What is less than in the paper, for readers; what the dataset stands in for aside."""
        lines = []
        if chosen.n_train:
            test = f" and the first {chosen.n_test:,} test images" if chosen.n_test else ""
            lines.append(f"The first {chosen.n_train:,} training images{test} are used.")
        if chosen.epochs < EPOCHS:
            lines.append(
                f"{chosen.epochs} epochs in place of {EPOCHS}; the triangle of the learning rate "
                "is squeezed."
            )
        if self.standard_seeds == IMPLICIT_SEEDS:
            planned = self.size(replace(settings, preset="paper")).seeds
            return [*lines, *less(chosen.seeds, planned, "seed")]
        if not self.all_seeds(settings):
            lines.append(
                f"{chosen.seeds} seeds of each network; the paper has {self.standard_seeds} "
                f"standard and {IMPLICIT_SEEDS} implicit ones."
            )
        return lines
