"""The controls: rules that decide, sentences that follow the numbers, and the whole on digits."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ibnn.lab.data import catalogue
from ibnn.lab.experiments import Settings, collect, execute, get, plan
from ibnn.lab.experiments.controls import claims, tables
from ibnn.lab.experiments.controls.arms import (
    ARMS,
    CLOSE,
    DECAY,
    FURTHER,
    IMPLICIT,
    NEGATIVE,
    STANDARD,
)
from ibnn.lab.experiments.controls.record import Record, Records
from ibnn.lab.experiments.controls.tuned import RATES, TUNING_SEEDS
from ibnn.lab.experiments.readings import NOT_YET
from ibnn.lab.report import ReportError, rebuild, write_report

SMOKE = Settings(preset="smoke", dataset="digits")
OF_THE_QUESTION = {"standard", "implicit", "mean-field", "instance-norm", "gain", "lite"}
NOISE = (0.001, -0.001, 0.0005, -0.0005, 0.0, 0.0008)  # of a seed, small beside the effects


def networks(effects: dict[str, float], robust: dict[str, float] | None = None) -> Records:
    """Six seeds of each arm: 0.7 plus its effect, plus a little that no two arms share."""
    records = []
    for place, (arm, effect) in enumerate(effects.items()):
        for seed in range(6):
            best = 0.7 + effect + NOISE[(seed + place) % 6]
            curve = tuple(best * epoch / 10 for epoch in range(1, 11))
            left = (robust or {}).get(arm, 0.0) + NOISE[(seed + place) % 6]
            attacked = (best, 0.4 + left, 0.3 + left) if robust else ()
            records.append(Record(arm, seed, best, best - 0.01, curve, attacked))
    return Records(records)


WORSE_CONTROLS = {STANDARD: 0.0, IMPLICIT: 0.1, **dict.fromkeys(CLOSE, 0.05)}


def test_the_claim_turns_with_the_numbers():
    claim = claims.needs_solve(networks(WORSE_CONTROLS))
    assert claim.agrees == "yes"
    assert "better than every close control" in claim.measured
    assert "lite 50 %" in claim.measured

    claim = claims.needs_solve(networks({**WORSE_CONTROLS, "mean-field": 0.15}))
    assert claim.agrees == "no"
    assert claim.measured.startswith("mean-field is better than implicit.")

    claim = claims.needs_solve(networks({**WORSE_CONTROLS, "mean-field": 0.1, "gain": 0.12}))
    assert claim.agrees == "no"
    assert claim.measured.startswith("gain is better than implicit; mean-field is equivalent")

    claim = claims.needs_solve(networks({**WORSE_CONTROLS, IMPLICIT: -0.1}))
    assert claim.agrees == "not decided"
    assert claim.measured == "There is no gain to explain yet."


def test_a_control_without_enough_pairs_leaves_the_claim_open():
    few = Records(r for r in networks(WORSE_CONTROLS) if r.arm != "lite" or r.seed < 4)
    claim = claims.needs_solve(few)
    assert claim.agrees == "not decided"
    assert claim.measured.startswith("Difference from implicit not decided: lite.")


def test_what_a_control_keeps_is_measured_on_its_own_seeds():
    """Its gain there over the neuron's gain there, not over that of seeds it was not trained on."""
    # the neuron gains 0.2 in the first three seeds and 0.1 in the others
    known = [
        replace(r, best=r.best + 0.1) if r.arm == IMPLICIT and r.seed < 3 else r
        for r in networks(WORSE_CONTROLS)
        if r.arm != "lite" or r.seed < 3
    ]
    fraction = claims.kept(Records(known), "lite")
    assert fraction == pytest.approx(0.25, abs=0.01)  # 0.05 of 0.2, but for the noise of a seed
    assert claims.kept(Records(known), "gain") == pytest.approx(0.05 / 0.15, abs=0.01)


def test_a_control_that_was_not_trained_is_said_not_to_be():
    known = networks(WORSE_CONTROLS)
    claim = claims.needs_solve(Records(r for r in known if r.arm != "lite"))
    assert claim.agrees == "not decided"
    assert claim.measured.startswith("Difference from implicit not decided: lite (not trained).")
    claim = claims.needs_solve(Records(r for r in known if r.arm not in CLOSE))
    assert (claim.agrees, claim.measured) == ("not decided", "No close control was trained.")


def test_the_headline_turns_with_the_numbers():
    assert "Yes: Implicit is better than every" in claims.headline(networks(WORSE_CONTROLS))
    turned = claims.headline(networks({**WORSE_CONTROLS, "gain": 0.2}))
    assert "No: gain is better" in turned


def test_epochs_saved_turn_with_the_numbers():
    # straight lines from 0: the better network has the other's best earlier
    fast, slow = networks(WORSE_CONTROLS), networks({**WORSE_CONTROLS, IMPLICIT: -0.1})
    assert claims.speed_claims(fast)[0].agrees == "yes"
    assert claims.speed_claims(slow)[0].agrees == "no"
    assert "never" in claims.speed_claims(slow)[0].measured
    # by hand: smoothed, the last epoch has the mean of the last two, 0.95 of the best
    found = claims.matched(fast, IMPLICIT)
    assert found is not None
    level, epoch, reached = found
    assert (level, epoch) == (pytest.approx(0.95 * 0.7, abs=1e-3), 10)
    assert reached == pytest.approx(0.95 * 0.7 / 0.8 * 10, abs=0.02)


NEGATIVE_ARMS = {STANDARD: 0.0, IMPLICIT: 0.1, NEGATIVE: 0.0, "shrink": 0.0, DECAY: 0.0}


@pytest.mark.parametrize(
    ("robust", "reply", "words"),
    [
        ({NEGATIVE: 0.1}, "yes", "more robust than each explicit"),
        ({NEGATIVE: 0.1, "shrink": 0.2}, "no", "shrink does as well or better."),
        ({NEGATIVE: 0.1, "shrink": 0.1}, "no", "shrink does as well or better."),
        ({NEGATIVE: -0.1}, "not decided", "no robustness to explain"),
    ],
)
def test_what_lam_below_zero_is_good_for_turns_with_the_numbers(robust, reply, words):
    claim = claims.robust_claims(networks(NEGATIVE_ARMS, robust))[-1]
    assert claim.agrees == reply
    assert words in claim.measured


@pytest.mark.parametrize(
    ("effect", "reply", "words"),
    [
        (0.1, "yes", "It remains."),
        (-0.1, "no", "It is reversed."),
        (0.0, "no", "It is gone"),
    ],
)
def test_a_gain_that_vanishes_is_said_to_vanish(effect, reply, words):
    changed = networks({STANDARD: 0.0, IMPLICIT: effect})
    claim = claims.remains(networks(WORSE_CONTROLS), changed, "with tuned rates")
    assert claim.agrees == reply
    assert words in claim.measured


def test_a_record_survives_the_csv():
    record = Record("gain", 3, 0.8125, 0.8, (0.5, 0.8125), (0.8, 0.4), (0.09, 0.05), 31_200, 0.03)
    row = {name: str(value) for name, value in record.row().items()}
    assert Record.from_row(row) == record
    bare = replace(record, attacked=(), lam=())
    assert Record.from_row({k: str(v) for k, v in bare.row().items()}) == bare


def test_the_table_has_every_arm_and_its_outcome():
    effects = {name: 0.01 * place for place, name in enumerate(ARMS)}
    table = tables.accuracy_table(networks(effects))
    assert [row[0] for row in table.rows] == list(ARMS)
    outcomes = {row[0]: row[-1] for row in table.rows}
    assert outcomes[STANDARD] == "better"
    assert {outcomes[name] for name in (*CLOSE, *FURTHER)} == {"worse"}
    assert outcomes[IMPLICIT] == outcomes[NEGATIVE] == ""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """All three experiments trained and reported in one folder."""
    folder = tmp_path_factory.mktemp("controls")
    for name in ("controls", "controls-torch", "controls-tuned"):
        settings = SMOKE if name == "controls" else replace(SMOKE, epochs=1)
        assert execute(get(name), settings, folder, engine="inline").ok
        write_report(get(name), settings, folder)
    return folder


@pytest.mark.parametrize("name", ["controls", "controls-torch", "controls-tuned"])
def test_every_report_is_whole(root, name):
    folder = root / f"{name}-digits"
    findings = json.loads((folder / "findings.json").read_text())
    assert findings["missing"] == 0
    # two pairs can never decide anything
    assert {claim["agrees"] for claim in findings["claims"]} == {"not decided"}
    for picture in findings["pictures"]:
        assert (folder / f"{picture['name']}.png").read_bytes().startswith(b"\x89PNG")
    with (folder / f"{name}.csv").open() as file:
        records = Records(Record.from_row(row) for row in csv.DictReader(file))
    arms = list(ARMS) if name == "controls" else ["standard", "implicit", *sorted(CLOSE)]
    assert sorted(records.arms()) == sorted(arms)
    # the tables of the page can be made again from the CSV alone
    again = tables.accuracy_table(records)
    assert [list(row) for row in again.rows] == findings["tables"][0]["rows"]


def test_networks_trained_elsewhere_join_a_report_by_their_csv(root, tmp_path):
    """Two halves of the networks on two machines: the report of both is that of one."""
    whole = root / "controls-digits"
    runs, _ = collect(get("controls"), SMOKE, root)
    for run in runs:
        if run.config.neuron == "lite" or run.config.seed == 1:
            shutil.copytree(run.folder.path, tmp_path / "runs" / run.result.identity)
    half = write_report(get("controls"), SMOKE, tmp_path).parent
    before = json.loads((half / "findings.json").read_text())
    assert before["missing"] == len(ARMS) - 1

    assert rebuild(half, add=whole / "controls.csv").parent == half
    joined, expected = (json.loads((f / "findings.json").read_text()) for f in (half, whole))
    assert joined["missing"] == 0
    for part in ("claims", "tables", "headline", "notes", "runs"):
        assert joined[part] == expected[part]
    told = {"settings", "seconds", "elsewhere"}
    assert {k: v for k, v in joined.items() if k not in told} == {
        k: v for k, v in expected.items() if k not in told
    }
    assert (half / "controls.csv").read_text() == (whole / "controls.csv").read_text()
    counted = f"{2 * len(ARMS)} finished, {len(ARMS) - 1} of them known from their results alone"
    assert dict(joined["settings"])["Runs"] == counted
    assert {*dict(joined["settings"])} == {*dict(expected["settings"])}
    assert rebuild(half).parent == half  # the rows stay
    assert json.loads((half / "findings.json").read_text())["missing"] == 0


def test_rows_kept_for_one_preset_do_not_join_the_report_of_another(root, tmp_path):
    runs, _ = collect(get("controls"), SMOKE, root)
    shutil.copytree(runs[0].folder.path, tmp_path / "runs" / runs[0].result.identity)
    rows = root / "controls-digits" / "controls.csv"
    folder = write_report(get("controls"), SMOKE, tmp_path, add=rows).parent
    assert json.loads((folder / "findings.json").read_text())["missing"] == 0
    longer = replace(SMOKE, epochs=1)
    config = get("controls").plan(longer, {})[0]
    run = next(r for r in collect(get("controls-tuned"), longer, root)[0] if r.config == config)
    shutil.copytree(run.folder.path, tmp_path / "runs" / run.result.identity)
    write_report(get("controls"), longer, tmp_path)
    assert json.loads((folder / "findings.json").read_text())["missing"] == 2 * len(ARMS) - 1
    write_report(get("controls"), SMOKE, tmp_path)  # they are still there
    assert json.loads((folder / "findings.json").read_text())["missing"] == 0


def test_tuned_networks_of_elsewhere_join_with_the_rate_that_was_picked_there(root, tmp_path):
    settings, tuned = replace(SMOKE, epochs=1), get("controls-tuned")
    runs, _ = collect(tuned, settings, root)
    run = next(r for r in runs if r.config.seed == TUNING_SEEDS[0])
    shutil.copytree(run.folder.path, tmp_path / "runs" / run.result.identity)
    rows = root / "controls-tuned-digits" / "controls-tuned.csv"
    folder = write_report(tuned, settings, tmp_path, add=rows).parent
    assert (folder / "controls-tuned.csv").read_text() == rows.read_text()
    *_, rates = json.loads((folder / "findings.json").read_text())["tables"]
    assert all(picked.endswith(" (elsewhere)") for *_, picked in rates["rows"])


def test_published_networks_of_elsewhere_say_whether_a_gain_remains(root, tmp_path):
    """Tuned on one machine, trained as published on another."""
    settings, tuned = replace(SMOKE, epochs=1), get("controls-tuned")
    published = {config.identity() for config in get("controls").plan(settings, {})}
    for run in collect(tuned, settings, root)[0]:
        place = "published" if run.result.identity in published else "tuned"
        shutil.copytree(run.folder.path, tmp_path / place / "runs" / run.result.identity)
    elsewhere = write_report(get("controls"), settings, tmp_path / "published").parent
    folder = write_report(tuned, settings, tmp_path / "tuned").parent
    whole = root / "controls-tuned-digits"
    before, expected = (json.loads((f / "findings.json").read_text()) for f in (folder, whole))
    assert before["claims"][0] != expected["claims"][0]
    rebuild(folder, add=elsewhere / "controls.csv")
    assert json.loads((folder / "findings.json").read_text())["claims"] == expected["claims"]
    # all published pairs count, though one pair was tuned
    one = replace(settings, seeds=1)
    write_report(tuned, one, tmp_path / "tuned", add=elsewhere / "controls.csv")
    fewer = json.loads((folder / "findings.json").read_text())
    assert "2 pairs" in fewer["claims"][0]["measured"]
    assert fewer["missing"] == 0


def test_published_networks_are_not_taken_for_tuned_ones(root, tmp_path):
    """Their rate could have been picked, but nobody knows: the arms have no networks here."""
    settings, tuned = replace(SMOKE, epochs=1), get("controls-tuned")
    runs, _ = collect(tuned, settings, root)
    run = next(r for r in runs if r.config.seed == TUNING_SEEDS[0])
    shutil.copytree(run.folder.path, tmp_path / "runs" / run.result.identity)
    for known in collect(get("controls"), settings, root)[0]:
        shutil.copytree(known.folder.path, tmp_path / "other" / "runs" / known.result.identity)
    published = write_report(get("controls"), settings, tmp_path / "other").parent / "controls.csv"
    own = root / "controls-tuned-digits" / "controls-tuned.csv"
    before = write_report(tuned, settings, tmp_path, add=own).parent / "controls-tuned.csv"
    expected = before.read_text()
    after = write_report(tuned, settings, tmp_path, add=published).parent / "controls-tuned.csv"
    assert after.read_text() == expected == own.read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("standard,0,", "standard,zero,"), "did not write"),
        (lambda text: text.replace("best_accuracy", "best"), "did not write"),
        (lambda text: text[: text.rindex(",")] + ",0123456789ab\n", "expected some of the 28"),
        (lambda text: "\0", "cannot be read|has no row"),
    ],
)
def test_rows_of_something_else_do_not_join(root, one_network, tmp_path, change, message):
    before = contents(one_network)
    changed = tmp_path / "changed.csv"
    changed.write_text(change((root / "controls-digits" / "controls.csv").read_text()))
    with pytest.raises(ReportError, match=message):
        rebuild(one_network, add=changed)
    assert contents(one_network) == before  # nothing of it was kept


@pytest.fixture(scope="module")
def one_network(root, tmp_path_factory):
    """A report of `controls` with one network of them all."""
    folder = tmp_path_factory.mktemp("one")
    runs, _ = collect(get("controls"), SMOKE, root)
    shutil.copytree(runs[-1].folder.path, folder / "runs" / runs[-1].result.identity)
    return write_report(get("controls"), SMOKE, folder).parent


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_experiment_whose_rows_are_no_networks_says_so(root, tmp_path):
    settings = replace(SMOKE, dataset="digits")
    assert execute(get("learning-speed"), settings, root, engine="inline").ok
    folder = write_report(get("learning-speed"), settings, root).parent
    shutil.copytree(folder, tmp_path / folder.name)
    with pytest.raises(ReportError, match=r"a row of learning-speed\.csv does not hold"):
        rebuild(folder, add=tmp_path / folder.name / "learning-speed.csv")


def test_arms_of_a_seed_share_everything_but_the_neuron(root):
    runs, _ = collect(get("controls"), SMOKE, root)
    warm_up = {}
    for run in runs:
        first = next(m for m in run.folder.metrics() if m.stage == "warm-up")
        warm_up.setdefault(run.config.seed, set()).add(
            None if run.config.weight_decay else first.loss
        )
        assert len(run.measured["white_box"]) == 9
    assert all(len(losses - {None}) == 1 for losses in warm_up.values())


def test_rates_are_picked_on_held_out_images_and_seeds_of_their_own(root):
    experiment, settings = get("controls-tuned"), replace(SMOKE, epochs=1)
    finished, left = plan(experiment, settings, root)
    assert not left
    tuning = [config for config in finished if config.hold_out]
    assert {config.seed for config in tuning} == set(TUNING_SEEDS)
    assert {config.lr_high for config in tuning} >= set(RATES)
    compared = [c for c in finished if not c.hold_out and c.seed < 2 and c.lr_high != 0.01]
    results = {run.config.identity(): run.result for run in collect(experiment, settings, root)[0]}
    for config in compared:
        arm = ARMS[config.neuron]
        assert config.lr_high == experiment.rate(settings, arm, results)
        scores = experiment.scores(settings, arm, results, [*RATES, 0.001, 0.3])
        assert scores[config.lr_high] == max(scores.values())


def test_settings_and_figures_are_of_the_compared_networks_not_of_those_that_tuned(root):
    experiment, settings = get("controls-tuned"), replace(SMOKE, epochs=1)
    runs, _ = collect(experiment, settings, root)
    assert any(run.config.hold_out for run in runs)
    found = experiment.find(settings, runs)
    assert dict(found.settings)["Seeds"].startswith("2 standard, 2 implicit")
    texts = " ".join(text.get_text() for text in found.pictures[0].figure.texts)
    assert " test images" in texts
    assert "held-out" not in texts


def test_runs_that_only_tuned_something_make_a_report_that_compares_nothing(root):
    experiment, settings = get("controls-tuned"), replace(SMOKE, epochs=1)
    runs, _ = collect(experiment, settings, root)
    tuning = [run for run in runs if run.config.hold_out and run.config.seed == TUNING_SEEDS[0]]
    found = experiment.find(settings, tuning)
    assert found.headline == NOT_YET
    assert {claim.agrees for claim in found.claims} == {"not decided"}
    assert not found.rows


def test_nothing_is_compared_before_every_rate_was_tried():
    known = get("controls-tuned").plan(SMOKE, {})
    assert {config.lr_high for config in known if not config.hold_out} == {0.01}
    assert len([c for c in known if c.hold_out]) == 6 * len(RATES) * len(TUNING_SEEDS)


def test_the_paper_preset_is_the_plan():
    experiment = get("controls")
    runs = experiment.plan(Settings(preset="paper", dataset="svhn-resplit"), {})
    assert len(runs) == len({run.identity() for run in runs}) == 10 * len(ARMS)
    assert {(r.layers, r.channels, r.epochs, r.n_train) for r in runs} == {(2, 3, 80, None)}
    cifar = experiment.plan(Settings(preset="paper", dataset="cifar10"), {})
    assert {run.neuron for run in cifar} == OF_THE_QUESTION
    assert {(run.layers, run.channels) for run in cifar} == {(3, 8)}


def test_any_dataset_that_is_expensive_has_the_arms_of_the_question(monkeypatch):
    svhn = catalogue.SOURCES["svhn"]
    assert svhn.defaults is not None
    costly = replace(svhn, defaults=replace(svhn.defaults, expensive=True))
    monkeypatch.setitem(catalogue.SOURCES, "svhn", costly)
    runs = get("controls").plan(Settings(preset="paper", dataset="svhn"), {})
    assert {run.neuron for run in runs} == OF_THE_QUESTION
