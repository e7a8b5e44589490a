"""The boundary experiment from plan to report, in seconds."""

import csv
import re
import struct
from pathlib import Path

import pytest

from ibnn.lab.experiments import ExperimentError, Settings, collect, execute, get, plan
from ibnn.lab.experiments.boundary.experiment import LAMBDAS, SLOPES, Condition, slope_sweep
from ibnn.lab.report import rebuild, write_report
from ibnn.lab.runner import run_all

SMOKE = Settings(preset="smoke")
PICTURES = ("boundary", "networks", "seeds", "energy")


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A finished smoke run with its report."""
    folder = tmp_path_factory.mktemp("boundary")
    outcome = execute(get("boundary"), SMOKE, folder)
    assert outcome.ok
    write_report(get("boundary"), SMOKE, folder)
    return folder


def rows(root: Path) -> list[dict[str, str]]:
    with (root / "boundary-arrows" / "boundary.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_second_sweep_waits_for_the_first(tmp_path):
    finished, left = plan(get("boundary"), SMOKE, tmp_path)
    assert not finished
    assert len(left) == 2 * (1 + len(LAMBDAS))


def test_every_condition_and_seed_is_one_line_of_the_csv(root):
    lines = rows(root)
    conditions = {(line["neuron"], line["lam"], line["slope"]) for line in lines}
    # the sweep of p at the best lam shares p = 10 with the sweep of lam
    assert len(conditions) == 1 + len(LAMBDAS) + len(SLOPES) - 1
    assert len(lines) == 2 * len(conditions)
    assert len({line["run"] for line in lines}) == len(lines)
    assert all(0 <= float(line["accuracy"]) <= 1 for line in lines)


def test_the_report_is_whole_and_needs_nothing_else(root):
    folder = root / "boundary-arrows"
    html = (folder / "report.html").read_text()
    assert html.count('<img src="data:image/png;base64,') == 4
    assert '<table class="claims">' in html
    for reduced in ("400 points.", "2 seeds in place of 10.", "3 epochs in place of 200."):
        assert reduced in html
    outside = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", html)
    assert {link for link in outside if not link.startswith("data:")} == {
        "boundary.csv",
        *(f"{name}.{kind}" for name in PICTURES for kind in ("png", "pdf")),
    }
    assert "http://" not in html
    assert "https://" not in html
    assert "url(" not in html
    for name in PICTURES:
        png = (folder / f"{name}.png").read_bytes()
        width, height = struct.unpack(">II", png[16:24])
        assert width == pytest.approx(9.6 * 160, abs=2)
        assert height > 300
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_a_report_is_rebuilt_without_training(root, monkeypatch):
    folder = root / "boundary-arrows"
    before = (folder / "boundary.csv").read_text()
    for file in folder.iterdir():
        if file.name != "experiment.json":
            file.unlink()
    monkeypatch.setattr("ibnn.lab.runner.execution.run_all", None)
    assert rebuild(folder) == folder / "report.html"
    assert (folder / "boundary.csv").read_text() == before


def test_nothing_is_trained_twice(root):
    outcome = execute(get("boundary"), SMOKE, root)
    assert not outcome.done
    assert len(outcome.skipped) == len(rows(root))


def test_measurements_are_kept_beside_their_runs(root, monkeypatch):
    experiment = get("boundary")
    monkeypatch.setattr(type(experiment), "measure", None)  # would fail if it were asked again
    runs, missing = collect(experiment, SMOKE, root)
    assert not missing
    assert all(run.measured.keys() == {"solidity", "curved_fraction", "inside"} for run in runs)


def test_an_unfinished_experiment_says_so_in_its_report(tmp_path):
    experiment = get("boundary")
    first = experiment.plan(SMOKE, {})
    run_all(first[:3], tmp_path, "ensemble")
    page = write_report(experiment, SMOKE, tmp_path).read_text()
    assert "9 of 12 runs have no result" in page
    assert "no comparison yet" in page


def test_a_lam_above_the_threshold_acts_below_it():
    assert slope_sweep(-0.5) == [Condition(-0.5, p) for p in SLOPES]
    above = slope_sweep(0.05)[-1]
    assert above == Condition(0.95 / 30, 30.0)


def test_what_does_not_exist_is_refused_by_name(tmp_path):
    with pytest.raises(ExperimentError, match="did you mean 'boundary'"):
        get("bondary")
    with pytest.raises(ExperimentError, match="expected one of smoke, cpu, paper"):
        execute(get("boundary"), Settings(preset="big"), tmp_path)
    with pytest.raises(ExperimentError, match="expected one of arrows, moons"):
        execute(get("boundary"), Settings(dataset="mnist"), tmp_path)
    assert not list(tmp_path.iterdir())
