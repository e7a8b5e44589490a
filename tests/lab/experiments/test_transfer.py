"""The transfer experiment from plan to report, its arithmetic, and its margins."""

import csv
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ibnn.lab.experiments import ExperimentError, Settings, collect, execute, get
from ibnn.lab.experiments.transfer.conversions import (
    LAMBDAS,
    OLD,
    REFITTED,
    WAYS,
    attacked_accuracy,
    margin_curve,
)
from ibnn.lab.experiments.transfer.readings import Conversions, kept
from ibnn.lab.models import UCN
from ibnn.lab.report import write_report
from ibnn.lab.stats import Paired
from ibnn.lab.theory_checks.transfer.margin import Classifier, Task, margins

SMOKE = Settings(preset="smoke", dataset="digits")


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A finished smoke run with its report."""
    folder = tmp_path_factory.mktemp("transfer")
    assert execute(get("transfer"), SMOKE, folder, engine="inline").ok
    write_report(get("transfer"), SMOKE, folder)
    return folder


def rows(root: Path) -> list[dict[str, str]]:
    with (root / "transfer-digits" / "transfer.csv").open() as file:
        return list(csv.DictReader(file))


def test_it_trains_the_standard_networks_of_learning_speed_and_no_other():
    for settings in (SMOKE, Settings(preset="paper", dataset="cifar10")):
        shared = get("learning-speed").plan(settings, {})
        own = get("transfer").plan(settings, {})
        standard = {c.identity() for c in shared if c.neuron == "standard"}
        assert {config.identity() for config in own} == standard


def test_every_seed_lam_and_way_is_one_line_of_the_csv(root):
    lines = rows(root)
    assert len(lines) == 2 * len(LAMBDAS) * (len(WAYS) + 1)
    converted = [line for line in lines if line["way"] in WAYS]
    assert len({(line["seed"], line["lam"], line["way"]) for line in converted}) == len(converted)
    # PGD counts an image it finds wrong already, so an attack never makes a network better; the
    # attacked images are all of the test images here
    assert all(float(c["robust_accuracy"]) <= float(c["accuracy"]) + 1e-12 for c in converted)


def test_at_lam_0_the_old_head_is_the_trained_network(root):
    runs, missing = collect(get("transfer"), SMOKE, root)
    assert not missing
    found = Conversions(runs).values("accuracy", OLD, 0.0)
    assert found == {run.config.seed: run.result.accuracy for run in runs}


def test_margins_of_trained_classifiers_stay_above_the_bound(root):
    lines = [line for line in rows(root) if line["way"] == "margin"]
    assert len(lines) == 2 * len(LAMBDAS)
    for line in lines:
        # float64 solves are exact to 1e-10 per unit
        assert float(line["margin_old_head"]) >= float(line["bound_sharper"]) - 1e-8
        assert float(line["bound_sharper"]) >= float(line["bound_paper"])
    none = [line for line in lines if float(line["lam"]) == 0]
    assert all(line["margin_old_head"] == line["bound_paper"] for line in none)


def test_the_report_has_its_pictures_claims_and_what_was_reduced(root):
    folder = root / "transfer-digits"
    page = (folder / "report.html").read_text()
    for name in ("transfer", "margin"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert page.count('<img src="data:image/png;base64,') == 2
    assert page.count('data-name="Agrees"') == 7
    assert "the numbers mean nothing" in page
    assert "a loss of one point" in page  # what decides whether accuracy is kept
    # two seeds decide nothing; the bound is a theorem and needs no seeds
    assert page.count('class="answer undecided"') == 6
    assert page.count('class="answer yes"') == 1


def test_lam_cannot_be_chosen_since_all_of_them_are_shown():
    with pytest.raises(ExperimentError, match="transfer has its own"):
        get("transfer").check(Settings(preset="smoke", dataset="digits", lam="0.05"))


def test_the_margin_of_two_units_by_hand():
    """y = (3, 1) and (1, 3): far apart, tanh is 1 and z moves by lam / 2 towards each other."""
    identity = torch.eye(2, dtype=torch.float64)
    head = torch.tensor([1.0, -1.0], dtype=torch.float64) / math.sqrt(2)
    classifier = Classifier(identity, torch.zeros(2, dtype=torch.float64), head)
    x = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    found = margins(Task("hand", x, torch.tensor([1, 0])), classifier, -0.5)
    assert found["margin_before"] == pytest.approx(4 / math.sqrt(2))
    # 1 - tanh(10 * 1.5) is 2e-13
    assert found["margin_old_head"] == pytest.approx(3 / math.sqrt(2), abs=1e-9)
    assert found["bound_paper"] == pytest.approx(2 / math.sqrt(2))
    # here both units move as far as any two can
    assert found["bound_sharper"] == pytest.approx(3 / math.sqrt(2))


def test_margins_are_left_out_without_two_classes():
    examples: Any = SimpleNamespace(
        name="one class",
        x_train=torch.zeros(4, 1, 2, 2, dtype=torch.uint8),
        y_train=torch.tensor([0, 0, 2, 0]),
    )
    assert margin_curve(examples, LAMBDAS, seed=0) is None


@pytest.fixture
def network() -> UCN:
    """Its convolution is positive, so that no unit is dead."""
    source = torch.Generator().manual_seed(0)
    made = UCN((1, 6, 6), 3, 1, 2, initialisation="torch", generator=source)
    for parameter in (made.blocks[0].conv.weight, made.blocks[0].conv.bias):
        parameter.data.abs_()
    return made.eval()


def test_a_radius_of_nothing_leaves_clean_accuracy(network):
    x = torch.rand(20, 1, 6, 6, generator=torch.Generator().manual_seed(2))
    y = network(x).argmax(1)
    assert attacked_accuracy(network, x, y, eps=0.0) == 1.0
    assert attacked_accuracy(network, x, y, eps=1.0) < 1.0


def transferred(accuracy: dict[float, list[float]]) -> Conversions:
    """Measurements with the given accuracies of the old head by lam (1 elsewhere), one per seed."""
    runs: Any = [
        SimpleNamespace(
            config=SimpleNamespace(seed=seed),
            measured={
                "points": [
                    {
                        "lam": lam,
                        "way": way,
                        "accuracy": accuracy.get(lam, [0.9] * 2)[seed] if way == OLD else 0.8,
                        "attacked": 0.5 - lam if way == OLD else 0.25,
                    }
                    for lam in LAMBDAS
                    for way in WAYS
                ],
                "margin": {
                    "units": 16,
                    "standard": 4.0 + seed,
                    "points": [
                        {
                            "lam": lam,
                            "margin_old_head": 4.0,
                            "margin_refitted": 5.0,
                            "bound_paper": 4.0 + seed - 8 * abs(lam),
                        }
                        for lam in LAMBDAS
                    ],
                },
            },
        )
        for seed in range(2)
    ]
    return Conversions(runs)


def test_differences_are_taken_seed_by_seed():
    found = transferred({-0.1: [0.8, 0.9], 0.0: [0.9, 0.94]})
    change = found.difference("accuracy", OLD, -0.1)
    assert change is not None
    # -0.10 and -0.04: mean -0.07, standard error 0.03, Student's t of one degree is 12.706
    assert change.mean == pytest.approx(-0.07)
    assert change.high - change.mean == pytest.approx(12.706 * 0.03, rel=1e-4)
    attacked = found.between_lams("attacked", OLD, -1.0, -0.05)
    assert attacked is not None
    assert attacked.mean == pytest.approx(0.95)


def test_one_way_against_another_is_the_mean_over_lam_without_0():
    found = transferred({0.0: [0.0, 0.0], -1.0: [0.0, 0.9]})
    heads = found.between_ways("accuracy", REFITTED, OLD)
    assert heads is not None
    # old: (0 + 8 * 0.9) / 9 = 0.8 and 0.9; refitted 0.8: differences 0 and -0.1
    assert heads.mean == pytest.approx(-0.05)


def test_the_strongest_lam_that_keeps_accuracy_has_no_weaker_one_that_does_not():
    kept_until = {-0.02: [0.9, 0.9], -0.05: [0.895, 0.895], -0.1: [0.88, 0.88], -0.2: [0.9, 0.9]}
    assert transferred(kept_until).strongest_kept(OLD) == -0.05
    assert transferred({-0.02: [0.5, 0.5]}).strongest_kept(OLD) is None


def test_the_slack_of_the_bound_is_the_smallest_of_all():
    # seed 1 has M = 5 and keeps 4: at |lam| = 0.02 the bound is 5 - 8 * 0.02
    assert transferred({}).lowest_slack() == pytest.approx(4 - 4.84)


@pytest.mark.parametrize(
    ("low", "high", "count", "answer"),
    [
        (-0.009, 0.002, 5, "yes"),
        (-0.03, -0.011, 5, "no"),
        (-0.02, 0.0, 5, "not decided"),
        (-0.009, 0.002, 4, "not decided"),
    ],
)
def test_kept_means_that_the_interval_excludes_the_loss(low, high, count, answer):
    assert kept([Paired((low + high) / 2, low, high, count)]) == answer
    assert kept([Paired(0.0, -0.001, 0.001, 5), None]) == "not decided"


def test_what_refitting_does_alone_is_told_apart():
    alone = transferred({0.0: [0.9, 0.86]}).refit_alone("accuracy")
    assert alone is not None
    assert alone.mean == pytest.approx(0.8 - 0.88)
