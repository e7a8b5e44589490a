"""What the lambda sweep makes of its runs: claims, tables and rows."""

from collections.abc import Sequence
from typing import Any

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.lambda_sweep.cells import (
    COLUMNS,
    FIXED,
    LEARNT,
    PAPERS_SLOPE,
    Cell,
    SweepRuns,
)
from ibnn.lab.experiments.readings import NOT_YET, medians, numbers, run_row
from ibnn.lab.results import Claim, Table
from ibnn.lab.stats import UNKNOWN, both_means, claim, difference, percent, sentence


def headline(swept: SweepRuns) -> str:
    if swept.best is None:
        return NOT_YET
    confirmed = swept.confirmed()
    better = sentence(confirmed, "it is {} accurate than the standard network", "more", "less")
    return (
        f"Best of {len(swept.cells)} neurons on held-out images: {swept.best.label}. On seeds that "
        f"did not choose it, {better}: {both_means(confirmed)}."
    )


def claims(swept: SweepRuns) -> list[Claim]:
    confirmed = swept.confirmed()
    learnt, fixed = _rivals(swept)
    rivalry = swept.between(learnt, fixed) if learnt and fixed else None
    return [
        claim(
            "A λ found by grid search makes IBNN more accurate than the standard network.",
            (f"Best cell: {swept.best.label}. " if swept.best else "")
            + f"Against standard, on seeds that did not choose it: {both_means(confirmed)}",
            confirmed,
        ),
        claim(
            "λ is better learnt than searched for.",
            f"p = {PAPERS_SLOPE:g}: λ learnt minus the best fixed one of the grid"
            + (f" ({fixed.label})" if fixed else "")
            + f": {difference(rivalry)}",
            rivalry,
            ours=True,
        ),
    ]


def _rivals(swept: SweepRuns) -> tuple[Cell | None, Cell | None]:
    """At the paper's slope: lam learnt, and the best fixed lam."""
    row = [cell for cell in swept.cells if cell.slope == PAPERS_SLOPE]
    learnt = next((cell for cell in row if cell.column.name == LEARNT), None)
    return learnt, swept.best_of(cell for cell in row if cell.column in FIXED)


def rows(swept: SweepRuns) -> list[dict[str, Any]]:
    lines = [_row(run, "sweep", None) for run in swept.standard.values()]
    for cell, runs in swept.cells.items():
        lines += [_row(run, "sweep", cell) for run in runs.values()]
    lines += [_row(run, "confirmation", None) for run in swept.fresh_standard.values()]
    return [*lines, *(_row(run, "confirmation", swept.best) for run in swept.fresh_best.values())]


def _row(run: Run, part: str, cell: Cell | None) -> dict[str, Any]:
    made = run_row(run, part=part, column=cell.column.name if cell else "standard")
    made["start_slope"] = cell.slope if cell else ""
    made["slope"] = numbers(run.result.slope)
    made["window_std"] = numbers(run.measured.get("window_std", ()), digits=4)
    return made


def tables(swept: SweepRuns) -> list[Table]:
    """Every cell, and where learnt numbers ended."""
    return [
        Table(
            "Every cell: median accuracy, and the mean difference from the standard network of "
            "equal seeds, in points",
            ("p", "λ", "Accuracy", "Difference (95 % interval)", "Seeds"),
            [_line(swept, cell) for cell in swept.cells],
        ),
        Table(
            "Where learnt numbers ended: median over seeds, by layer",
            ("p at the start", "Column", "λ", "p", "Width of the window"),
            [
                (f"{cell.slope:g}", cell.column.name, *_ends(list(runs.values())))
                for cell, runs in swept.cells.items()
                if cell.column in COLUMNS[len(FIXED) :]
            ],
        ),
    ]


def _line(swept: SweepRuns, cell: Cell) -> tuple[str, ...]:
    accuracy, lam = swept.accuracy(cell), cell.column.at(cell.slope)
    return (
        f"{cell.slope:g}",
        cell.column.name if lam is None else f"{lam:.3g}",
        "none" if accuracy is None else percent(accuracy),
        found.short() if (found := swept.difference(cell)) else UNKNOWN,
        str(len(swept.cells[cell])),
    )


def _ends(runs: Sequence[Run]) -> tuple[str, str, str]:
    if not runs:
        return "none", "none", "none"
    ends = (
        [run.result.lam for run in runs],
        [run.result.slope for run in runs],
        [run.measured.get("window_std", ()) for run in runs],
    )
    lam, slope, width = (medians(values, ".3g") or "-" for values in ends)
    return lam, slope, width
