"""What the lambda sweep's report says."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from ibnn.lab.experiments.accuracy.tables import NOT_YET, difference, run_row
from ibnn.lab.experiments.experiment import Preset, Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.lam_modes import HELD_OUT
from ibnn.lab.experiments.lambda_sweep.cells import (
    COLUMNS,
    FIXED,
    LEARNT,
    PAPERS_SLOPE,
    WINDOW_SIDE,
    WINDOW_STD,
    Cell,
)
from ibnn.lab.experiments.lambda_sweep.readings import Swept
from ibnn.lab.results import Claim, Table
from ibnn.lab.stats import Paired, decide, percent

MAP = (
    "Best accuracy on held-out training data, median over seeds, and below it the gain over the "
    "standard network of equal seeds, in points. Green: the implicit-bias neuron is better; blue: "
    "the standard one is; framed: the best cell."
)
PRODUCTS = (
    "The gain of every fixed λ against λ p, by slope: lines are medians, dots single seeds. While "
    "p times the spread of a unit's inputs is small, λ and p count only by their product."
)
NOTES = (
    "The paper found λ by grid search or by learning it first, and gives neither grid nor values: "
    "this grid is ours.",
    f"Everything is judged on {HELD_OUT:.0%} of the training images, held out by seed; the test "
    "split chooses nothing and is not looked at.",
    "The best of many cells flatters itself on the seeds that chose it. It is therefore trained "
    "again, with the standard network, on further seeds: only those decide.",
    "Best accuracy means the best epoch on the held-out images, for both neurons alike.",
    f"Window: a gaussian of {WINDOW_SIDE} x {WINDOW_SIDE} units in place of the whole channel, its "
    f"width learnt from {WINDOW_STD:g}; λ learnt too.",
    "A learnt λ acts at most at 0.95 of the threshold. Yes and no need at least five pairs of "
    "seeds and a 95 % interval that excludes zero; intervals are not corrected for the number of "
    "comparisons.",
)


def headline(swept: Swept) -> str:
    """The finding in one sentence."""
    standard = swept.accuracy()
    if swept.best is None or standard is None:
        return NOT_YET
    best = swept.accuracy(swept.best)
    assert best is not None
    return (
        f"Best of {len(swept.cells)} neurons on held-out data: {swept.best.label}, "
        f"{percent(best)} against {percent(standard)} of the standard one; on further seeds the "
        f"difference is {difference(swept.confirmed())}."
    )


def footnote(preset: Preset, runs: Sequence[Run]) -> str:
    """The instances, epochs and images used, to stand in a figure."""
    train, held = max(r.result.n_train for r in runs), max(r.result.n_test for r in runs)
    return (
        f"{preset.seeds} seeds of each, {preset.epochs} epochs, {train:,} training and {held:,} "
        "held-out images"
    )


def claims(swept: Swept) -> list[Claim]:
    """The table "paper says / measured here"."""
    confirmed = swept.confirmed()
    learnt, fixed = _rivals(swept)
    rivalry = swept.between(learnt, fixed) if learnt and fixed else None
    return [
        Claim(
            "A λ found by grid search makes IBNN more accurate than the standard network.",
            (f"Best cell: {swept.best.label}. " if swept.best else "")
            + f"Minus standard, on seeds that did not choose it: {difference(confirmed)}",
            decide(confirmed, "more"),
        ),
        Claim(
            "λ is better learnt than searched for.",
            f"p = {PAPERS_SLOPE:g}: λ learnt minus the best fixed one of the grid"
            + (f" ({fixed.label})" if fixed else "")
            + f": {difference(rivalry)}",
            decide(rivalry, "more"),
        ),
    ]


def _rivals(swept: Swept) -> tuple[Cell | None, Cell | None]:
    """At the paper's slope: lam learnt, and the best fixed lam."""
    row = [cell for cell in swept.cells if cell.slope == PAPERS_SLOPE]
    learnt = next((cell for cell in row if cell.column.name == LEARNT), None)
    return learnt, swept.best_of(cell for cell in row if cell.column in FIXED)


def rows(swept: Swept) -> list[dict[str, Any]]:
    """The CSV: one line for each run."""
    lines = [_row(run, "sweep", None) for run in swept.standard.values()]
    for cell, runs in swept.cells.items():
        lines += [_row(run, "sweep", cell) for run in runs.values()]
    lines += [_row(run, "confirmation", None) for run in swept.fresh_standard.values()]
    return [*lines, *(_row(run, "confirmation", swept.best) for run in swept.fresh_best.values())]


def _row(run: Run, part: str, cell: Cell | None) -> dict[str, Any]:
    made = run_row(run, part=part, column=cell.column.name if cell else "standard")
    made["start_slope"] = cell.slope if cell else ""
    made["slope"] = " ".join(f"{value:.5g}" for value in run.result.slope)
    made["window_std"] = " ".join(f"{v:.4g}" for v in run.measured.get("window_std", ()))
    return made


def tables(swept: Swept) -> list[Table]:
    """Every cell, and where learnt numbers ended."""
    return [
        Table(
            "Every cell, against the standard network of equal seeds",
            ("p", "λ", "Accuracy", "Paired difference", "Seeds"),
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


def _line(swept: Swept, cell: Cell) -> tuple[str, ...]:
    accuracy, lam = swept.accuracy(cell), cell.column.at(cell.slope)
    return (
        f"{cell.slope:g}",
        cell.column.name if lam is None else f"{lam:.3g}",
        "none" if accuracy is None else percent(accuracy),
        _short(swept.difference(cell)),
        str(len(swept.cells[cell])),
    )


def _short(found: Paired | None) -> str:
    if found is None:
        return "not known yet"
    mean, low, high = found.signed(100)
    return f"{mean} ({low} to {high})"


def _ends(runs: Sequence[Run]) -> tuple[str, str, str]:
    if not runs:
        return "none", "none", "none"

    def middle(values: Sequence[Sequence[float]]) -> str:
        return ", ".join(f"{median(layer):.3g}" for layer in zip(*values, strict=True)) or "-"

    return (
        middle([run.result.lam for run in runs]),
        middle([run.result.slope for run in runs]),
        middle([run.measured.get("window_std", ()) for run in runs]),
    )


def settings_lines(experiment: ImageExperiment, settings: Settings) -> list[tuple[str, str]]:
    """How the runs were trained."""
    central, preset = experiment.central(settings), experiment.preset(settings)
    return [
        ("Network", f"UCN({central.layers},{central.channels})"),
        ("Neuron", "sigma(z) = tanh(p z), w = 1/D inside each channel unless windowed"),
        ("λ", "one number for all layers, fixed, or learnt from 0"),
        ("Training", f"{preset.epochs} epochs after 2 of warm-up, as in the other experiments"),
        ("Seeds", f"{preset.seeds} for every cell, further ones for the best"),
    ]
