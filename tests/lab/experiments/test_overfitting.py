"""Overfitting: what is counted as learnt by heart, and sentences that follow the numbers."""

import csv
import json

import pytest
import torch

from ibnn.lab import data
from ibnn.lab.experiments import Settings, collect, execute, get
from ibnn.lab.experiments.overfitting import claims
from ibnn.lab.experiments.overfitting.record import Record, Records
from ibnn.lab.report import write_report
from ibnn.lab.training import prepare

SMOKE = Settings(preset="smoke", dataset="digits")
NOISE = (0.001, -0.001, 0.0005, -0.0005, 0.0, 0.0008)


def networks(gain: float, noisy_gain: float, learnt: float = 0.5, drop: float = 0.1) -> Records:
    """Six seeds: the implicit network ahead by `gain`, or by `noisy_gain` with wrong labels."""
    records = []
    for place, arm in enumerate(claims.ARMS):
        for wrong in (0.0, 0.4):
            for seed in range(6):
                ahead = (noisy_gain if wrong else gain) if arm == claims.IMPLICIT else 0.0
                best = 0.8 + ahead + NOISE[(seed + place) % 6]
                by_heart = (learnt if arm == claims.IMPLICIT else 0.5) + NOISE[(seed + place) % 6]
                left = best - drop - NOISE[seed]
                record = Record(
                    arm, wrong, seed, best, left, by_heart if wrong else None, 10 - place, 20
                )
                records.append(record)
    return Records(records)


def answers(records: Records) -> list[str]:
    return [claim.agrees for claim in claims.claims(records)]


def test_claims_turn_with_the_numbers():
    ahead = networks(gain=0.01, noisy_gain=0.05, learnt=0.3)
    assert answers(ahead)[:4] == ["yes", "yes", "yes", "yes"]
    assert answers(ahead)[5] == "yes"
    behind = networks(gain=-0.01, noisy_gain=-0.05, learnt=0.7)
    assert answers(behind)[1:4] == ["no", "no", "no"]
    assert answers(behind)[5] == "no"
    assert "+5.0" in claims.headline(ahead)
    assert "-5.0" in claims.headline(behind)


def test_equal_networks_are_no_better():
    assert answers(networks(gain=0.0, noisy_gain=0.0))[1:4] == ["no", "no", "no"]
    assert answers(networks(gain=0.0, noisy_gain=0.0))[5] == "no"


def test_whether_anything_was_memorized_is_said():
    assert "which overfits here" in claims.headline(networks(0.0, 0.01))
    assert "may or may not overfit" in claims.headline(networks(0.0, 0.01, drop=0.0))
    assert answers(networks(0.0, 0.01, drop=0.0))[0] == "not decided"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overfitting")
    assert execute(get("overfitting"), SMOKE, folder, engine="inline").ok
    return folder


def test_the_report_is_whole(root):
    folder = write_report(get("overfitting"), SMOKE, root).parent
    findings = json.loads((folder / "findings.json").read_text())
    assert findings["missing"] == 0
    assert "within 0.3 points" in findings["rule"]  # that equivalent networks are a no
    # two pairs can never decide anything
    assert {claim["agrees"] for claim in findings["claims"]} == {"not decided"}
    with (folder / "overfitting.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3 * 2 * 2


def test_arms_of_a_seed_have_the_same_wrong_labels_and_learning_them_is_counted(root):
    runs, _ = collect(get("overfitting"), SMOKE, root)
    noisy = [run for run in runs if run.config.label_noise]
    labels = {}
    for run in noisy:
        labels.setdefault(run.config.seed, []).append(run.examples().y_train)
    for group in labels.values():
        assert len(group) == 3
        assert all(torch.equal(group[0], other) for other in group)
    run = noisy[0]
    clean = prepare(run.config.replace(label_noise=0.0), data.load("digits"))
    wrong = run.examples().y_train != clean.y_train
    assert run.measured["wrong"] == int(wrong.sum()) == 80  # 40 % of 200
    x = run.examples().x_train[wrong]
    x = x.float() / 255 if x.dtype == torch.uint8 else x
    with torch.no_grad():
        given_back = run.network()(x).argmax(1) == run.examples().y_train[wrong]
    assert run.measured["learnt_by_heart"] == pytest.approx(float(given_back.double().mean()))
