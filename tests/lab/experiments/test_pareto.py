"""The map of clean and robust accuracy: its front, and the answer that follows the numbers."""

import json

from ibnn.lab.experiments import Settings, execute, get, pareto
from ibnn.lab.experiments.controls.experiment import Controls
from ibnn.lab.experiments.controls.record import Record, Records
from ibnn.lab.experiments.pareto import MAP
from ibnn.lab.report import write_report
from ibnn.lab.runner import collect, unmeasured
from ibnn.lab.training import RunFolder, train

NOISE = (0.001, -0.001, 0.0005, -0.0005, 0.0, 0.0008)


def networks(places: dict[str, tuple[float, float]]) -> Records:
    """Six seeds of each arm at (clean, robust), and a little noise that no two arms share."""
    records = []
    for place, (arm, (clean, robust)) in enumerate(places.items()):
        for seed in range(6):
            noise = NOISE[(seed + place) % 6]
            attacked = (clean + noise, robust + noise, robust + noise)
            records.append(Record(arm, seed, clean + noise, clean + noise, (clean,), attacked))
    return Records(records)


def judged(records: Records, *more: str) -> pareto.Family:
    return pareto.against_standard(records, ["a", "b", *more])


def test_the_answer_turns_with_the_numbers():
    one = judged(networks({"standard": (0.7, 0.3), "a": (0.8, 0.4), "b": (0.8, 0.2)}))
    claim = pareto.both_promises(one)
    assert (claim.agrees, claim.measured) == ("yes", "Better in both: a.")
    none = judged(networks({"standard": (0.7, 0.3), "a": (0.6, 0.4), "b": (0.8, 0.2)}))
    assert pareto.both_promises(none).agrees == "no"
    assert [c.agrees for c in pareto.arm_claims(one)] == ["yes", "no"]


def test_an_arm_that_is_not_measured_enough_leaves_it_open():
    whole = networks({"standard": (0.7, 0.3), "a": (0.6, 0.4), "b": (0.8, 0.4)})
    few = Records(r for r in whole if r.arm != "b" or r.seed < 3)
    claim = pareto.both_promises(judged(few))
    assert (claim.agrees, claim.measured) == ("not decided", "Not ruled out: b.")


def test_an_arm_without_a_network_counts_in_the_correction():
    found = networks({"standard": (0.7, 0.3), "a": (0.6, 0.4), "b": (0.8, 0.2)})
    few, more = judged(found), judged(found, "c", "d")
    assert more["a"][0].p > few["a"][0].p
    assert pareto.both_promises(more).measured == "Not ruled out: c; d."


def test_the_front_is_who_nobody_beats_in_both():
    places = {"a": (0.8, 0.2), "b": (0.7, 0.4), "c": (0.7, 0.3), "d": (0.6, 0.4)}
    assert pareto.front(places) == ["b", "a"]
    assert pareto.front({"a": (0.5, 0.5), "twin": (0.5, 0.5)}) == ["a", "twin"]


def test_arms_are_different_runs():
    settings = Settings(preset="paper", dataset="svhn-resplit")
    runs = get("pareto").plan(settings, {})
    assert len({run.identity() for run in runs}) == len(runs) == 5 * len(MAP)
    # a single layer has no first one to treat apart
    flat = get("pareto").plan(Settings(preset="paper", dataset="fashion-mnist"), {})
    assert len(flat) == 5 * (len(MAP) - 1)
    shared = {run.identity() for run in get("controls").plan(settings, {})}
    assert len([run for run in runs if run.identity() in shared]) == 5 * 7


def test_what_controls_attacked_is_not_attacked_again(tmp_path, monkeypatch):
    settings = Settings(preset="smoke", dataset="digits", epochs=1, seeds=1)
    standard, *others = get("controls").plan(settings, {})
    train(standard, tmp_path)
    ((attacked,), _) = collect(get("controls"), settings, tmp_path)

    def again(self, run):
        raise AssertionError(f"{run.config.title()} is attacked again")

    monkeypatch.setattr(Controls, "measure", again)
    ((shared,), _) = collect(get("pareto"), settings, tmp_path)
    assert shared.measured == attacked.measured
    # an implicit one, attacked when the map of accuracies still kept its own measurements
    implicit = next(config for config in others if config.neuron == "implicit")
    train(implicit, tmp_path)
    folder = RunFolder(tmp_path, implicit.identity())
    older = {"version": 1, "values": {"images": 2, "white_box": [0.5]}}
    (folder.path / "measured-pareto.json").write_text(json.dumps(older))
    found = collect(get("pareto"), settings, tmp_path)[0]
    assert [run.measured for run in found] == [shared.measured, older["values"]]
    left = {config.identity() for config in unmeasured(get("pareto"), settings, tmp_path)}
    assert not left & {standard.identity(), implicit.identity()}


def test_the_whole_on_digits(tmp_path):
    settings = Settings(preset="smoke", dataset="digits", epochs=1)
    assert execute(get("pareto"), settings, tmp_path, engine="inline").ok
    folder = write_report(get("pareto"), settings, tmp_path).parent
    findings = json.loads((folder / "findings.json").read_text())
    assert findings["missing"] == 0
    assert len(findings["tables"][0]["rows"]) == len(MAP) - 1
    # two pairs can never decide anything
    assert {claim["agrees"] for claim in findings["claims"]} == {"not decided"}
    assert (folder / "pareto.png").read_bytes().startswith(b"\x89PNG")
