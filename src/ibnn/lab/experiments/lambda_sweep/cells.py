"""The cells of the lambda sweep: which neuron stands in which row and column of the map."""

from dataclasses import dataclass
from typing import Any

import ibnn
from ibnn.lab.training import RunConfig

SLOPES = (1.0, 3.0, 10.0, 30.0, 100.0)
PAPERS_SLOPE = 10.0
NEGATIVE = (-1.0, -0.5, -0.2, -0.05)
FRACTIONS = (0.5, 0.8, 0.95)  # of the threshold of uniqueness
LEARNT, LEARNT_SLOPE, WINDOW = "λ learnt", "λ and p learnt", "window, λ learnt"
WINDOW_SIDE = 7
WINDOW_STD = 2.0

_LEARNT: dict[str, dict[str, Any]] = {
    LEARNT: {},
    LEARNT_SLOPE: {"learn_slope": True},
    WINDOW: {
        "coupling": "window",
        "window": WINDOW_SIDE,
        "window_profile": "gaussian",
        "window_std": WINDOW_STD,
        "learn_window": True,
    },
}


@dataclass(frozen=True)
class Column:
    """A column of the map: lam fixed at a number or at a fraction of the threshold, or learnt."""

    name: str
    lam: float | None = None
    fraction: float | None = None

    def at(self, slope: float) -> float | None:
        """The fixed lam of a row; None if it is learnt."""
        if self.fraction is not None:
            return self.fraction * float(ibnn.uniqueness_threshold(slope))
        return self.lam


@dataclass(frozen=True)
class Cell:
    """One neuron: a slope and a column."""

    slope: float
    column: Column

    @property
    def label(self) -> str:
        """The neuron in words: "λ = 0.05, p = 10"."""
        lam = self.column.at(self.slope)
        if lam is None:
            return f"{self.column.name}, p = {self.slope:g}"
        return f"λ = {lam:.3g}, p = {self.slope:g}"

    def config(self, standard: RunConfig) -> RunConfig:
        """The run of this cell that pairs with a standard one."""
        implicit = standard.replace(neuron="implicit", slope=self.slope)
        lam = self.column.at(self.slope)
        if lam is None:
            return implicit.replace(**_LEARNT[self.column.name])
        return implicit.replace(lam=lam, learn_lam=False)


FIXED = (
    *(Column(f"{lam:g}", lam=lam) for lam in NEGATIVE),
    *(Column(f"{part:g}/p", fraction=part) for part in FRACTIONS),
)
COLUMNS = (*FIXED, *(Column(name) for name in _LEARNT))
CELLS = tuple(Cell(slope, column) for slope in SLOPES for column in COLUMNS)
