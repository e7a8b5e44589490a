"""The whole suite on five kinds of networks: answers that follow the numbers, and it on digits."""

import csv
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from ibnn.lab.attacks import evaluate, named, suite
from ibnn.lab.experiments import Settings, collect, execute, get
from ibnn.lab.experiments.controls.arms import DECAY, IMPLICIT, NEGATIVE, STANDARD
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.protocol import attack_line
from ibnn.lab.experiments.robustness import suite as suite_module
from ibnn.lab.experiments.robustness import suite_claims
from ibnn.lab.experiments.robustness.suite import INTERMEDIATE, NAMES, accuracies, suite_table
from ibnn.lab.experiments.robustness.suite_claims import CLEAN, EXACT, WORST, SuiteRecord
from ibnn.lab.report import write_report
from tests.lab.attacks import digits
from tests.lab.experiments.invented import invent

ARMS = (STANDARD, IMPLICIT, NEGATIVE, "shrink", DECAY)
NOISE = (0.001, -0.001, 0.0005, -0.0005, 0.0, 0.0008)


def networks(worst: dict[str, float], alone: float = 0.0) -> Records:
    """Six seeds of each arm: its accuracy under all attacks, of which intermediate states broke
    `alone` on average by themselves, plus a little noise that no two arms share."""
    records = []
    for place, arm in enumerate(ARMS):
        for seed in range(6):
            value = 0.3 + worst.get(arm, 0.0) + NOISE[(seed + place) % 6]
            under = {CLEAN: 0.8, EXACT: value + alone * (0.5 + seed % 2), WORST: value}
            curve = (0.8, value + 0.1, value)
            records.append(SuiteRecord(arm, seed, 0.8, 0.8, (0.8,), curve, under=under, images=200))
    return Records(records)


@pytest.mark.parametrize(
    ("worst", "replies"),
    [
        ({IMPLICIT: 0.1, NEGATIVE: 0.2}, ["yes", "yes", "yes"]),
        ({IMPLICIT: -0.1, NEGATIVE: -0.2}, ["no", "no", "not decided"]),
        ({NEGATIVE: 0.2, "shrink": 0.3}, ["no", "yes", "no"]),
        ({NEGATIVE: 0.2, "shrink": 0.2}, ["no", "yes", "no"]),
    ],
)
def test_the_answers_turn_with_the_numbers(worst, replies):
    claims = suite_claims.suite_claims(networks(worst))
    assert [claim.agrees for claim in claims[:3]] == replies


@pytest.mark.parametrize(("alone", "reply"), [(0.0, "no"), (0.02, "yes"), (0.003, "not decided")])
def test_what_only_intermediate_states_break_has_a_threshold(alone, reply):
    claim = suite_claims.unfinished(networks({}, alone), NEGATIVE)
    assert claim.agrees == reply
    few = Records(r for r in networks({}, alone) if r.seed < 4)
    assert suite_claims.unfinished(few, NEGATIVE).agrees == "not decided"


@pytest.mark.parametrize(("effect", "reply"), [(0.1, "yes"), (-0.1, "no"), (0.0, "no")])
def test_networks_trained_to_resist_are_judged_in_three_measures(effect, reply):
    claims = suite_claims.trained_claims(networks({IMPLICIT: effect}))
    assert [claims[0].agrees, claims[2].agrees] == [reply, reply]
    assert claims[4].agrees == "no"  # equal clean accuracies


def test_the_worst_case_is_taken_image_by_image():
    model, (x, y) = digits.trained("implicit"), digits.images(60)
    found = evaluate(model, x, y, eps=0.06, attacks=suite(NAMES, 0.06, quick=True), checks=False)
    read = accuracies(found)
    broken = dict(zip((row.name for row in found.rows), found.success(), strict=True))
    right = torch.tensor([digit == "1" for digit in found.right])
    others = torch.tensor([flags for name, flags in broken.items() if name != INTERMEDIATE])
    assert read[EXACT] == pytest.approx(float((right & ~others.any(0)).double().mean()))
    assert read[WORST] == found.robust_accuracy <= read[EXACT] <= read["square-linf"] < read[CLEAN]
    assert list(read)[1:-2] == [row.name for row in found.rows]


@pytest.mark.parametrize(
    ("preset", "epochs", "quick"),
    [
        ("smoke", None, True),
        ("cpu", None, False),
        ("paper", None, False),
        # the preset decides, whatever its epochs
        ("smoke", 30, True),
        ("cpu", 2, False),
        ("paper", 2, False),
    ],
)
def test_only_preset_smoke_has_the_quick_suite(preset, epochs, quick, monkeypatch):
    attacked: dict[str, Any] = {}

    def remember(network, x, y, **options):
        attacked.update(options, images=len(x))
        return MagicMock()

    for name, stub in (
        ("evaluate", remember),
        ("accuracies", lambda found: {}),
        ("attacked_network", lambda run: None),
        ("pgd_curve", lambda run, x, y: []),
        ("attacked_images", lambda run: (torch.zeros(500, 1), torch.zeros(500))),
    ):
        monkeypatch.setattr(suite_module, name, stub)
    settings = Settings(preset=preset, dataset="digits", epochs=epochs)
    run: Any = SimpleNamespace(config=get("attack-suite").plan(settings, {})[0])
    measured = get("attack-suite").measure(run)
    eps = measured[suite_claims.SUITE_EPS]
    assert attacked["attacks"] == suite(NAMES, eps, quick=quick)
    assert attacked["attacks"] != suite(NAMES, eps, quick=not quick)
    assert attacked["images"] == measured[suite_claims.SUITE_IMAGES] == (20 if quick else 200)
    # a report names the attacks that were run
    runs = invent(get("attack-suite"), settings, lambda config: 0.5, lambda config: measured)
    told = dict(get("attack-suite").settings_lines(settings, runs))
    assert told["Suite: square-linf"] == attack_line(named("square", eps, quick=quick))


def test_a_record_survives_the_csv():
    record = replace(networks({}).of(NEGATIVE)[0], attacked=(0.8, 0.4))
    row = {name: str(value) for name, value in record.row().items()}
    assert SuiteRecord.from_row({**row, f"under: {INTERMEDIATE}": ""}) == record


def test_nothing_is_trained_that_controls_have_not():
    settings = Settings(preset="paper", dataset="svhn-resplit")
    known = {config.identity() for config in get("controls").plan(settings, {})}
    runs = {config.identity() for config in get("attack-suite").plan(settings, {})}
    assert runs < known
    assert len(runs) == 5 * len(ARMS)


def test_networks_trained_to_resist_differ_in_nothing_else():
    settings = Settings(preset="cpu", dataset="fashion-mnist")
    runs = get("adversarial-training").plan(settings, {})
    assert len({config.identity() for config in runs}) == len(runs) == 15
    assert {(c.adversarial_eps, c.adversarial_steps, c.n_train, c.epochs) for c in runs} == {
        (0.05, 5, 5_000, 10)
    }
    experiment = get("adversarial-training")
    assert {experiment.eps(config) for config in runs} == {0.05}


@pytest.mark.parametrize("name", ["attack-suite", "adversarial-training"])
def test_the_whole_on_digits(name, tmp_path):
    settings = Settings(preset="smoke", epochs=1)
    experiment = get(name)
    assert execute(experiment, settings, tmp_path, engine="inline").ok
    folder = write_report(experiment, settings, tmp_path).parent
    findings = json.loads((folder / "findings.json").read_text())
    assert findings["missing"] == 0
    # two pairs can never decide anything
    assert {claim["agrees"] for claim in findings["claims"]} == {"not decided"}
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (folder / f"{name}.csv").open() as file:
        records = Records(SuiteRecord.from_row(row) for row in csv.DictReader(file))
    again = suite_table(records, experiment.arm_names)
    assert [list(row) for row in again.rows] == findings["tables"][0]["rows"]
    for run in collect(experiment, settings, tmp_path)[0]:
        has = INTERMEDIATE in run.measured["suite"]
        assert has == (run.config.neuron == "implicit")
