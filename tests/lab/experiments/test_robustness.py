"""The attack experiments from plan to report on digits: artifacts and arithmetic."""

import csv
import json
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import ibnn
from ibnn.lab import data
from ibnn.lab.attacks import PGD
from ibnn.lab.experiments import Settings, collect, execute, get
from ibnn.lab.experiments.robustness.networks import (
    LEARNT,
    NEGATIVE,
    STANDARD,
    attacked_images,
    randomness,
)
from ibnn.lab.experiments.robustness.pgd import TRANSFER, WHITE_BOX, drop, robust_accuracy, sizes
from ibnn.lab.experiments.robustness.pixle import VARIANTS
from ibnn.lab.report import write_report

SMOKE = Settings(preset="smoke")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("robustness")
    for name in ("pgd", "pixle"):
        assert execute(get(name), SMOKE, folder, engine="inline").ok
        write_report(get(name), SMOKE, folder)
    return folder


def test_three_kinds_of_networks_with_equal_seeds(root):
    experiment = get("pgd")
    groups = experiment.groups(SMOKE, collect(experiment, SMOKE, root)[0])
    assert {name: sorted(runs) for name, runs in groups.items()} == {
        STANDARD: [0, 1],
        LEARNT: [0, 1],
        NEGATIVE: [0, 1],
    }
    assert all(run.result.lam == [pytest.approx(-0.2)] for run in groups[NEGATIVE].values())


def test_the_table_has_every_eps_while_a_kind_of_network_is_missing(root):
    experiment = get("pgd")
    groups = experiment.groups(SMOKE, collect(experiment, SMOKE, root)[0])
    table = experiment.table({**groups, NEGATIVE: {}})
    assert len(table.columns) == 2 + len(sizes("digits"))
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_the_figure_says_how_many_networks_of_each_kind_are_there(root):
    experiment = get("pgd")
    runs = collect(experiment, SMOKE, root)[0]

    def note(some):
        (axes,) = experiment.find(SMOKE, some).pictures[0].figure.axes
        return " ".join(t.get_text() for t in axes.figure.texts).replace("\n", " ")

    assert "2 networks of each kind" in note(runs)
    fewer = [r for r in runs if r.config.seed == 0 or r.result.lam != [pytest.approx(-0.2)]]
    assert f"networks: 2 {STANDARD}; 2 {LEARNT}; 1 {NEGATIVE}" in note(fewer)


@pytest.mark.parametrize(
    ("preset", "dataset", "epochs", "images"),
    [
        ("cpu", "fashion-mnist", None, 1000),
        ("cpu", "svhn-resplit", None, 1000),
        ("cpu", "cifar10", 20, 1000),
        ("paper", "fashion-mnist", None, 1500),
        ("paper", "svhn-resplit", None, 1500),
        # the preset decides, whatever its epochs
        ("cpu", "fashion-mnist", 80, 1000),
        ("paper", "fashion-mnist", 2, 1500),
        ("paper", "cifar10", None, 1000),
    ],
)
def test_only_preset_paper_attacks_every_test_image(preset, dataset, epochs, images):
    """And not on an expensive dataset, which is told."""
    settings = Settings(preset=preset, dataset=dataset, epochs=epochs)
    config = get("pgd").plan(settings, {})[0]
    x, y = torch.zeros(1500, 1, 2, 2, dtype=torch.uint8), torch.zeros(1500, dtype=torch.int64)
    examples = data.Dataset(dataset, x[:2], y[:2], x, y, 1, (1, 2, 2))
    run: Any = SimpleNamespace(config=config, examples=lambda: examples)
    assert len(attacked_images(run)[0]) == images
    told = "The first 1,000 test images are attacked." in get("pgd").preset(settings).reduced
    assert told == (dataset == "cifar10" and preset == "paper")


def test_pgd_trains_nothing_that_learning_speed_has_not(root):
    shared = {c.identity() for c in get("learning-speed").plan(SMOKE, {})}
    attacked = {c.identity() for c in get("pgd").plan(SMOKE, {})}
    assert shared < attacked
    assert len(attacked - shared) == 2  # the two of negative lam
    assert {c.identity() for c in get("pixle").plan(SMOKE, {})} == attacked


def test_a_curve_begins_with_the_clean_accuracy_and_is_the_attack_it_says(root):
    experiment = get("pgd")
    groups = experiment.groups(SMOKE, collect(experiment, SMOKE, root)[0])
    run = groups[NEGATIVE][1]
    network, (x, y) = run.network().eval(), attacked_images(run)
    with torch.no_grad():
        assert run.measured[WHITE_BOX][0] == pytest.approx(
            float((network(x).argmax(1) == y).double().mean())
        )
    eps = sizes("digits")
    assert eps[0] == 0
    assert eps[-1] == 0.1
    assert len(eps) == 9
    again = PGD(eps[4])(network, x, y, generator=randomness(run, "pgd"))
    assert run.measured[WHITE_BOX][4] == pytest.approx(1 - float(again.success.double().mean()))
    # the transfer curve is made with the twin's gradients and judged on the network itself
    twin = PGD(eps[-1], early_stop=False)(
        ibnn.standard(network), x, y, generator=randomness(run, "pgd")
    )
    assert len(run.measured[TRANSFER]) == 9
    assert twin.images.shape == x.shape
    assert TRANSFER not in groups[STANDARD][0].measured


def test_means_and_drops_leave_the_clean_point_out(root):
    experiment = get("pgd")
    runs = experiment.groups(SMOKE, collect(experiment, SMOKE, root)[0])[STANDARD]
    for seed, run in runs.items():
        curve = run.measured[WHITE_BOX]
        assert robust_accuracy(runs)[seed] == pytest.approx(fmean(curve[1:]))
        assert drop(runs)[seed] == pytest.approx(curve[0] - fmean(curve[1:]))
    findings = json.loads((root / "pgd-digits" / "findings.json").read_text())
    said = [findings["headline"], *(claim["measured"] for claim in findings["claims"])]
    assert all("mean over all eps above 0" in text for text in said)


@pytest.mark.parametrize(("name", "lines"), [("pgd", 9 * (2 + 2 * 4)), ("pixle", 6)])
def test_every_point_is_in_the_csv_and_the_report_is_whole(root, name, lines):
    folder = root / f"{name}-digits"
    with (folder / f"{name}.csv").open() as file:
        assert len(list(csv.DictReader(file))) == lines
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    claims = json.loads((folder / "findings.json").read_text())["claims"]
    assert len(claims) == (4 if name == "pgd" else 2)
    assert {claim["agrees"] for claim in claims} == {"not decided"}


def test_pixle_never_helps_in_any_variant(root):
    experiment = get("pixle")
    for run in collect(experiment, SMOKE, root)[0]:
        network, (x, y) = run.network().eval(), attacked_images(run)
        with torch.no_grad():
            clean = float((network(x).argmax(1) == y).double().mean())
        assert run.measured["clean"] == pytest.approx(clean)
        assert all(run.measured[variant] <= clean for variant in VARIANTS)
