"""What an experiment is: runs, what is measured on each, and what is made of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ibnn.lab.results import Findings
from ibnn.lab.runner.finished import Run
from ibnn.lab.stats import counted
from ibnn.lab.training import Result, RunConfig

__all__ = ["Experiment", "ExperimentError", "Preset", "Run", "Settings"]


class ExperimentError(Exception):
    """Settings that the experiment does not have; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How much is trained. `reduced` says, for readers, what is less than in the paper."""

    seeds: int
    epochs: int
    reduced: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)  # an experiment's own numbers


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a user chose; None is the preset's or the experiment's own value."""

    preset: str = "cpu"
    dataset: str | None = None
    seeds: int | None = None  # how many
    first_seed: int = 0  # another one: fresh networks, judged by themselves
    epochs: int | None = None
    channels: int | None = None  # of every layer of an image network
    lam: str | None = None  # how lam is found, see `lam_modes`


def less(number: int, full: int, what: str) -> list[str]:
    """A line for readers where a number is smaller than in the paper.

    >>> less(2, 10, "seed"), less(10, 10, "seed")
    (['2 seeds in place of 10.'], [])
    """
    return [f"{counted(number, what)} in place of {full}."] if number < full else []


class Experiment(ABC):
    """One figure of the paper. Subclasses hold no state: everything is in files.

    To add one: a class in a file, and `register_experiment` above it.

    `plan` is called again after its runs have finished, with their results, and may then name
    further ones (the best lam of a first sweep, retrained); it ends by naming nothing new.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    datasets: ClassVar[tuple[str, ...]]  # the first is the default; "*" allows any other
    smoke_dataset: ClassVar[str | None] = None  # default of preset smoke, if another one
    presets: ClassVar[Mapping[str, Preset]]
    engine: ClassVar[str] = "processes"  # unless the user chooses one
    takes_lam: ClassVar[bool] = False  # whether the user may say how lam is found
    takes_channels: ClassVar[bool] = False  # ... and how wide its networks are
    takes_seeds: ClassVar[bool] = True  # ... and how many seeds are trained
    cheap: ClassVar[bool] = False  # `ibnn run all --preset cpu` runs it on expensive datasets too
    measure_version: ClassVar[int] = (
        1  # raised when `measure` changes: older measurements are made again
    )
    measured_as: ClassVar[str | None] = None  # the experiment with the same `measure`, if one has
    renamed: ClassVar[Mapping[str, str]] = {}  # older names of what `measure` gives -> today's

    @abstractmethod
    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        """Every run known to be needed, given the results (by identity) so far."""

    def measure(self, run: Run) -> dict[str, Any]:
        """What is measured on one finished run, beside its result: kept in its folder as JSON."""
        return {}

    def measuring_seconds(self, configs: Sequence[RunConfig]) -> float | None:
        """How long `measure` takes on these runs, where that is most of the work."""
        return None

    @abstractmethod
    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        """Figures, claims and rows from the finished runs."""

    def joinable(self, settings: Settings) -> list[RunConfig]:
        """The runs whose rows, written elsewhere, may join this experiment's own."""
        return self.plan(settings, {})

    def find_with(
        self, settings: Settings, runs: Sequence[Run], rows: Sequence[Mapping[str, str]]
    ) -> Findings:
        """The same, joined by networks trained elsewhere: rows of this experiment's own CSV, where
        a row holds all that is kept of a network."""
        raise ExperimentError(f"a row of {self.name}.csv does not hold a whole network")

    def preset(self, settings: Settings) -> Preset:
        """The preset with the user's own numbers in place of its seeds and epochs."""
        chosen = self.presets[settings.preset]
        seeds, epochs = settings.seeds or chosen.seeds, settings.epochs or chosen.epochs
        full = self.presets.get("paper", chosen)
        fewer = (
            *less(seeds, full.seeds, "seed"),
            *less(epochs, full.epochs, "epoch"),
        )
        return Preset(
            seeds=seeds, epochs=epochs, reduced=(*chosen.reduced, *fewer), more=chosen.more
        )

    def seeds(self, settings: Settings) -> range:
        """The seeds that are trained."""
        return range(settings.first_seed, settings.first_seed + self.preset(settings).seeds)

    def dataset(self, settings: Settings) -> str:
        own = self.smoke_dataset if settings.preset == "smoke" else None
        return settings.dataset or own or self.datasets[0]

    def check(self, settings: Settings) -> None:
        """Refuse what this experiment cannot do."""
        if settings.preset not in self.presets:
            known = ", ".join(self.presets)
            raise ExperimentError(f"preset is {settings.preset!r}, expected one of {known}")
        dataset = self.dataset(settings)
        if dataset not in self.datasets and "*" not in self.datasets:
            known = ", ".join(self.datasets)
            raise ExperimentError(f"dataset of {self.name} is {dataset!r}, expected one of {known}")
        if settings.lam is not None and not self.takes_lam:
            raise ExperimentError(f"lam is {settings.lam!r}, but {self.name} has its own")
        if settings.channels is not None and not self.takes_channels:
            raise ExperimentError(f"channels is {settings.channels}, but {self.name} has its own")
        if settings.seeds is not None and not self.takes_seeds:
            raise ExperimentError(f"seeds is {settings.seeds}, but {self.name} has its own")
        if settings.first_seed and not self.takes_seeds:
            raise ExperimentError(
                f"first seed is {settings.first_seed}, but {self.name} has its own seeds"
            )
        if settings.first_seed < 0:
            raise ExperimentError(f"first seed is {settings.first_seed}, expected at least 0")
        for name in ("seeds", "epochs", "channels"):
            value = getattr(settings, name)
            if value is not None and value < 1:
                raise ExperimentError(f"{name} is {value}, expected at least 1")
