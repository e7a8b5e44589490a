"""The cells of the lambda sweep, its finished runs by cell, and what is read off them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import ibnn
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.readings import readings
from ibnn.lab.stats import Paired, paired
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


@dataclass(frozen=True)
class SweepRuns:
    """The finished runs: the standard network, every cell, and the best cell's confirmation."""

    standard: Mapping[int, Run]
    cells: Mapping[Cell, Mapping[int, Run]]
    best: Cell | None = None
    fresh_standard: Mapping[int, Run] = field(default_factory=dict)
    fresh_best: Mapping[int, Run] = field(default_factory=dict)

    def difference(self, cell: Cell) -> Paired | None:
        """A cell minus the standard network of equal seeds."""
        return paired(readings(self.cells[cell]), readings(self.standard))

    def gains(self, cell: Cell) -> list[float]:
        """The same difference of each seed."""
        standard = readings(self.standard)
        return [v - standard[s] for s, v in readings(self.cells[cell]).items() if s in standard]

    def accuracy(self, cell: Cell | None = None) -> float | None:
        """The median accuracy of a cell, or of the standard network; None without a run."""
        runs = self.standard if cell is None else self.cells[cell]
        return median(readings(runs).values()) if runs else None

    def best_of(self, cells: Iterable[Cell]) -> Cell | None:
        """The cell of highest median accuracy among those that have one."""
        known = {cell: value for cell in cells if (value := self.accuracy(cell)) is not None}
        return max(known, key=lambda cell: known[cell]) if known else None

    def between(self, cell: Cell, other: Cell) -> Paired | None:
        return paired(readings(self.cells[cell]), readings(self.cells[other]))

    def confirmed(self) -> Paired | None:
        """The best cell minus the standard network, seeds that did not choose it."""
        return paired(readings(self.fresh_best), readings(self.fresh_standard))
