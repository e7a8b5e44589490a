"""The experiment `architectures`: what is compared, and sentences that turn with the numbers."""

from collections.abc import Callable

import pytest

from ibnn.lab.experiments import ExperimentError, Settings, collect, execute, get
from ibnn.lab.experiments.architectures import claims
from ibnn.lab.experiments.architectures.amounts import (
    CONTROLS,
    IMPLICIT,
    STANDARD,
    WIDER,
    arms,
    base,
)
from ibnn.lab.experiments.architectures.record import Record, Records
from ibnn.lab.experiments.controls.claims import solve_needed

NOISE = (0.0, 0.002, -0.001, 0.001, -0.002)


def records(
    level: Callable[[str], float],
    network: str = "resnet20",
    seeds: int = 5,
    cost: float = 1.5,
    lam: float = 0.05,
) -> Records:
    """Invented networks: every arm at its own level, seeds with the same small noise."""

    def one(arm: str, seed: int) -> Record:
        best = level(arm) + NOISE[seed] * (1 + 0.5 * (arm == IMPLICIT))
        return Record(
            network=network,
            arm=arm,
            seed=seed,
            curve=(best - 0.2, best - 0.1, best),
            lam=(0.02, lam + NOISE[seed]) if arm == IMPLICIT else (),
            parameters=10,
            cost=cost + NOISE[seed] if arm == IMPLICIT else 1.0,
            seconds=0.1,
            trained=1.0,
            run=f"{arm}{seed}",
        )

    names = (STANDARD, IMPLICIT, *CONTROLS, *([WIDER] if network == "gpt" else []))
    return Records(network, [one(arm, seed) for arm in names for seed in range(seeds)])


def answers(found: Records) -> dict[str, str]:
    return {line.paper.partition(": ")[2]: line.agrees for line in claims.claims({"x": found})}


GAIN = "the learnt implicit bias is better than the standard neuron."
SOLVE = "the gain needs the implicit solve."


@pytest.mark.parametrize(
    ("implicit", "control", "gain", "solve"),
    [
        (0.6, 0.5, "yes", "yes"),
        (0.6, 0.6, "yes", "no"),  # a control as good as it
        (0.6, 0.7, "yes", "no"),
        (0.4, 0.5, "no", "not decided"),  # nothing to explain
        (0.5, 0.5, "no", "not decided"),  # equivalent
    ],
)
def test_sentences_turn_with_the_numbers(implicit, control, gain, solve):
    levels = {STANDARD: 0.5, IMPLICIT: implicit}
    found = answers(records(lambda arm: levels.get(arm, control)))
    assert found[GAIN] == gain
    assert found[SOLVE] == solve


def test_the_gain_needs_the_solve_by_the_rule_of_the_controls():
    levels = {STANDARD: 0.5, IMPLICIT: 0.6, "mean-field": 0.6, "instance-norm": 0.7}
    found = claims.needs_solve(records(levels.__getitem__))
    outcomes = {"mean-field": "equivalent", "instance-norm": "worse"}
    assert (found.agrees, found.measured) == solve_needed(outcomes)


def test_four_pairs_decide_nothing():
    found = answers(records(lambda arm: 0.6 if arm == IMPLICIT else 0.5, seeds=4))
    assert set(found.values()) == {"not decided"}


def test_bits_are_saved_and_not_gained():
    found = records(lambda arm: -2.0 if arm == IMPLICIT else -2.5, network="gpt")
    assert answers(found)[GAIN] == "yes"
    assert "+0.5000 bits per character saved" in claims.headline({"gpt": found})
    assert claims.table(found).rows[1][2] == "2.000"
    wider = "it is better than a wider standard network of equal training time."
    assert answers(found)[wider] == "yes"
    row = found.of(IMPLICIT)[0].row()
    assert row["measure"] == "bits per character"
    assert row["best"] == 2.0
    assert row["curve"] == "2.2 2.1 2"


def test_what_a_step_costs_is_judged_against_twice_the_standard_one():
    question = "a training step takes less than twice the time."
    assert answers(records(lambda arm: 0.5, cost=1.5))[question] == "yes"
    assert answers(records(lambda arm: 0.5, cost=2.5))[question] == "no"
    assert answers(records(lambda arm: 0.5, cost=2.0))[question] == "not decided"


@pytest.mark.parametrize(("lam", "expected"), [(0.05, "yes"), (-0.1, "no"), (-0.02, "not decided")])
def test_the_side_lam_goes_to_is_told(lam, expected):
    found = answers(records(lambda arm: 0.5, lam=lam))
    assert found["a learnt lam goes to the positive side."] == expected


def test_arms_share_everything_but_the_neuron():
    found = arms(base("gpt", "kjv", "cpu", None).replace(seed=3))
    assert list(found) == [STANDARD, IMPLICIT, *CONTROLS, WIDER]
    assert {config.seed for config in found.values()} == {3}
    assert found[IMPLICIT].replace(neuron="standard") == found[STANDARD]
    assert (found[WIDER].width, found[WIDER].neuron) == (112, "standard")


def test_points_are_refused_in_one_line():
    with pytest.raises(
        ExperimentError, match=r"architectures is 'arrows', expected images or text"
    ):
        get("architectures").check(Settings(preset="smoke", dataset="arrows"))


@pytest.mark.parametrize(("dataset", "networks"), [("digits", 2), ("sums", 1)])
def test_the_smoke_preset_runs_on_what_comes_with_the_laboratory(dataset, networks, tmp_path):
    experiment = get("architectures")
    settings = Settings(preset="smoke", dataset=dataset, seeds=1, epochs=1)
    execute(experiment, settings, tmp_path, engine="inline")
    runs, missing = collect(experiment, settings, tmp_path)
    assert not missing
    found = experiment.find(settings, runs)
    assert len(found.rows) == len(runs) == (8 if networks == 2 else 5)
    assert len(found.tables) == 2 * networks
    assert {line.agrees for line in found.claims} == {"not decided"}  # one pair
    names = [name for name, _ in found.settings]
    assert any(name.endswith(": Optimizer") for name in names)
