"""The finished runs of the lambda sweep, and what is read off them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.lambda_sweep.cells import Cell
from ibnn.lab.experiments.readings import readings
from ibnn.lab.stats import Paired, paired


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
