"""The sweep over lam and slope from plan to report, and its arithmetic."""

import csv
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest

import ibnn
from ibnn.lab.experiments import Settings, collect, execute, get, plan
from ibnn.lab.experiments.lambda_sweep.cells import (
    CELLS,
    COLUMNS,
    FIXED,
    FRACTIONS,
    SLOPES,
    WINDOW,
    Cell,
    SweepRuns,
)
from ibnn.lab.experiments.lambda_sweep.experiment import LambdaSweep
from ibnn.lab.report import write_report
from ibnn.lab.training import RunConfig, train

SMOKE = Settings(preset="smoke", dataset="digits")


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A finished smoke run with its report."""
    folder = tmp_path_factory.mktemp("sweep")
    assert execute(LambdaSweep(), SMOKE, folder, engine="inline").ok
    write_report(LambdaSweep(), SMOKE, folder)
    return folder


def rows(root: Path) -> list[dict[str, str]]:
    with (root / "lambda-sweep-digits" / "lambda-sweep.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_grid_has_both_signs_and_stays_below_the_threshold():
    assert len(CELLS) == len(SLOPES) * len(COLUMNS) == 50
    for cell in CELLS:
        lam = cell.column.at(cell.slope)
        assert lam is None or lam < ibnn.uniqueness_threshold(cell.slope)
    steepest = [cell.column.at(100.0) for cell in CELLS if cell.slope == 100]
    assert steepest[4:7] == pytest.approx([part / 100 for part in FRACTIONS])


def test_a_cell_differs_from_its_standard_twin_by_its_neuron_only():
    twin = RunConfig(dataset="digits", seed=3, hold_out=0.2, epochs=4)
    for cell in CELLS:
        config = cell.config(twin)
        assert config.neuron == "implicit"
        assert config.slope == cell.slope
        assert config.learn_lam == (cell.column not in FIXED)
        assert (config.coupling == "window") == (cell.column.name == WINDOW)
        assert config.learn_slope == (cell.column.name == "λ and p learnt")
        neuron = ("neuron", "slope", "lam", "learn_lam", "learn_slope", "coupling", "window")
        window = ("window_profile", "window_std", "learn_window")
        same = {name: getattr(twin, name) for name in (*neuron, *window)}
        assert config.replace(**same) == twin
    assert len({cell.config(twin).identity() for cell in CELLS}) == len(CELLS)


def test_the_test_split_is_never_looked_at():
    for preset in ("smoke", "cpu", "paper"):
        runs = LambdaSweep().plan(Settings(preset=preset, dataset="digits"), {})
        assert all(config.hold_out == 0.2 for config in runs)


def test_the_best_cell_is_confirmed_on_seeds_that_did_not_choose_it(root):
    lines = rows(root)
    sweep = [line for line in lines if line["part"] == "sweep"]
    fresh = [line for line in lines if line["part"] == "confirmation"]
    assert len(sweep) == 2 * (1 + len(COLUMNS))
    assert len(fresh) == 2 * 2
    assert {line["seed"] for line in sweep} == {"0", "1"}
    assert {line["seed"] for line in fresh} == {"2", "3"}
    by_column: dict[str, list[float]] = {}
    for line in sweep:
        by_column.setdefault(line["column"], []).append(float(line["best_accuracy"]))
    best = {line["column"] for line in fresh} - {"standard"}
    implicit = {name: median(v) for name, v in by_column.items() if name != "standard"}
    assert implicit[best.pop()] == max(implicit.values())


def test_held_out_images_are_taken_from_the_training_images(root):
    found = {line["n_train"] for line in rows(root)}
    runs, _ = collect(get("lambda-sweep"), SMOKE, root)
    for run in runs:
        assert run.result.n_train + run.result.n_test == 200
    assert found == {str(run.result.n_train) for run in runs}


def test_the_confirmation_waits_for_the_sweep(root, tmp_path):
    finished, left = plan(LambdaSweep(), SMOKE, tmp_path)
    assert not finished
    assert len(left) == 2 * (1 + len(COLUMNS))
    finished, left = plan(LambdaSweep(), SMOKE, root)
    assert len(finished) == 2 * (1 + len(COLUMNS)) + 4
    assert not left


def test_learnt_windows_tell_their_width(root):
    lines = [line for line in rows(root) if line["column"] == WINDOW]
    assert lines
    assert all(float(line["window_std"]) > 0 for line in lines)


def test_the_report_has_its_map_and_says_that_two_seeds_decide_nothing(root):
    folder = root / "lambda-sweep-digits"
    page = (folder / "report.html").read_text()
    for name in ("map", "products"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert page.count('class="answer undecided"') == 2
    assert "held-out images" in page


def test_an_unfinished_sweep_says_so(tmp_path):
    experiment = LambdaSweep()
    train(experiment.plan(SMOKE, {})[0], tmp_path)
    page = write_report(experiment, SMOKE, tmp_path).read_text()
    assert "21 of 22 runs have no result" in page
    assert "no comparison yet" in page


def finished(*accuracies: float) -> dict[int, Any]:
    return {
        seed: SimpleNamespace(result=SimpleNamespace(best_accuracy=value))
        for seed, value in enumerate(accuracies)
    }


def test_gains_are_taken_seed_by_seed_and_decided_by_further_seeds():
    first, second = CELLS[0], CELLS[1]
    swept = SweepRuns(
        standard=finished(0.80, 0.82),
        cells={first: finished(0.81, 0.79), second: finished(0.85)},
        best=second,
        fresh_standard=finished(0.5, 0.6, 0.5, 0.6, 0.5),
        fresh_best=finished(0.6, 0.72, 0.61, 0.7, 0.62),
    )
    assert swept.gains(first) == pytest.approx([0.01, -0.03])
    assert swept.gains(second) == pytest.approx([0.05])
    assert swept.accuracy() == pytest.approx(0.81)
    assert swept.best_of([first, second]) == second
    assert swept.difference(second) is None  # one pair has no interval
    confirmed = swept.confirmed()
    assert confirmed is not None
    assert confirmed.mean == pytest.approx(0.11)
    assert confirmed.count == 5
    assert confirmed.answer("more") == "yes"


def test_the_best_cell_is_the_best_median_not_the_best_run():
    experiment, names = LambdaSweep(), {}
    lucky, steady = experiment.cells(SMOKE)[:2]
    for cell in experiment.cells(SMOKE):
        values = {lucky: (0.9, 0.1), steady: (0.6, 0.6)}.get(cell, (0.2, 0.2))
        for seed, value in enumerate(values):
            twin = next(c for c in experiment.plan(SMOKE, {}) if c.seed == seed)
            result: Any = SimpleNamespace(best_accuracy=value)
            names[cell.config(twin).identity()] = result
    assert experiment.best(SMOKE, names) == steady
    names.popitem()
    assert experiment.best(SMOKE, names) is None


def test_cells_name_themselves():
    assert Cell(10.0, FIXED[-1]).label == "λ = 0.095, p = 10"
    assert Cell(3.0, COLUMNS[-1]).label == "window, λ learnt, p = 3"
