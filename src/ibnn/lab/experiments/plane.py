"""Small networks of points in the plane: a setting of the figures, and its run."""

from dataclasses import dataclass
from typing import Any

from ibnn.lab.experiments.experiment import Preset
from ibnn.lab.training import RunConfig

DATASETS = ("arrows", "moons", "circles", "spirals")
SLOPE = 10.0
HIDDEN = 3


@dataclass(frozen=True)
class Condition:
    """One network of a figure."""

    lam: float | None = None  # None: the standard neuron
    slope: float = SLOPE
    hidden: int = HIDDEN

    @property
    def label(self) -> str:
        return "standard" if self.lam is None else f"λ = {self.lam:.3g}, p = {self.slope:g}"

    @property
    def short(self) -> str:
        """The label without p = 10."""
        return f"λ = {self.lam:g}" if self.lam is not None and self.slope == SLOPE else self.label

    def config(self, preset: Preset, dataset: str, seed: int = 0, **more: Any) -> RunConfig:
        """The run of this condition with one seed."""
        base = RunConfig(
            dataset=dataset,
            network="perceptron",
            hidden=self.hidden,
            epochs=preset.epochs,
            validate_every=min(20, preset.epochs),
            dtype="float64",  # in an ensemble or alone: steps differ by 1e-16 only
            seed=seed,
            **more,
        )
        if self.lam is None:
            return base
        return base.replace(neuron="implicit", lam=self.lam, slope=self.slope, learn_lam=False)
