"""The experiment `open-ends`: options against what they change, sentences that turn."""

import pytest
import torch

from ibnn.lab.experiments import Settings, collect, execute, get
from ibnn.lab.experiments.open_ends import claims
from ibnn.lab.experiments.open_ends.arms import ARMS, EXTENT, FREE, IMPLICIT, OPTIONS, PEAKED
from ibnn.lab.experiments.open_ends.record import Record, Records
from ibnn.lab.training import build_network

NOISE = (0.0, 0.002, -0.001, 0.001, -0.002)


def records(levels: dict[str, float], seeds: int = 5, lam: float = 0.05) -> Records:
    """Invented networks: every arm at its own level, 0.5 unless named."""

    def one(arm: str, seed: int) -> Record:
        noise = NOISE[seed] * (1 + 0.1 * list(ARMS).index(arm))
        best = levels.get(arm, 0.5) + noise
        learnt = () if arm == "standard" else (lam,)
        return Record(
            arm=arm,
            seed=seed,
            curve=(best - 0.1, best),
            lam=learnt,
            slope=tuple(10.0 for _ in learnt),
            extent=(),
            unsolved=0.0,
            parameters=10,
            seconds=1.0,
            run=f"{arm}{seed}",
        )

    return Records(one(arm, seed) for arm in ARMS for seed in range(seeds))


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(("level", "answer"), [(0.6, "yes"), (0.4, "no"), (0.5, "no")])
def test_an_option_is_judged_by_its_own_difference(option, level, answer):
    networks = records({option: level})
    said = claims.claims(networks, claims.family(networks, list(ARMS)))
    found = {line.paper: line.agrees for line in said}
    question = f"{option.capitalize()}: more accurate than {ARMS[option].against}."
    assert found[question] == answer


def test_the_headline_names_what_helps_and_what_harms():
    text = claims.headline(claims.family(records({EXTENT: 0.6, "slope learnt": 0.4}), list(ARMS)))
    assert "better than what they change: extent learnt;" in text
    assert "worse: slope learnt;" in text
    assert "equivalent: lam per channel" in text
    assert claims.headline(claims.family(records({}, seeds=1), list(ARMS))) == "Not known yet."


def test_an_option_without_a_network_counts_in_the_correction():
    networks = records({"slope learnt": 0.6})
    kept = Records(record for record in networks if record.arm in ("implicit", "slope learnt"))
    both = claims.family(kept, ["slope learnt"]), claims.family(kept, list(ARMS))
    one, all_options = (found["slope learnt"].p for found in both)
    assert all_options == pytest.approx(len(OPTIONS) * one)


def test_a_network_is_read_back_from_its_line():
    (one, *_) = records({"implicit": 0.625}).of("implicit")
    line = {name: str(value) for name, value in one.row().items()}
    assert Record.from_row(line) == one


@pytest.mark.parametrize(("lam", "answer"), [(0.05, "no"), (0.15, "yes")])
def test_whether_a_free_lam_passes_the_threshold_is_counted(lam, answer):
    assert claims.passes(records({}, lam=lam)).agrees == answer


def test_each_option_changes_one_thing():
    experiment = get("open-ends")
    base = experiment.base(Settings(preset="cpu", dataset="digits"))
    assert ARMS[PEAKED].of(base) == ARMS[FREE].of(base).replace(sigma="peaked")
    assert ARMS[FREE].of(base) == ARMS[IMPLICIT].of(base).replace(bounded=False)
    assert ARMS[EXTENT].of(base) == ARMS["window"].of(base).replace(learn_window=True)


def test_the_extent_of_the_window_is_learnt():
    base = get("open-ends").base(Settings(preset="smoke", dataset="digits"))
    config = ARMS[EXTENT].of(base).replace(lam=0.05, initialisation="torch")
    network = build_network(config, (1, 8, 8), 10)
    network(torch.rand(4, 1, 8, 8)).square().sum().backward()
    (std,) = (p for name, p in network.named_parameters() if name.endswith("coupling.std"))
    assert std.grad.abs() > 0


def test_the_slow_sigma_is_left_out_on_large_maps():
    experiment = get("open-ends")
    small, large = (
        {c.sigma for c in experiment.plan(Settings(preset="smoke", dataset=name), {})}
        for name in ("digits", "svhn-resplit")
    )
    assert (small, large) == ({"tanh", "peaked"}, {"tanh"})


def test_the_smoke_preset_runs(tmp_path):
    experiment, settings = get("open-ends"), Settings(preset="smoke", seeds=1, epochs=1)
    assert execute(experiment, settings, tmp_path, engine="inline").ok
    runs, missing = collect(experiment, settings, tmp_path)
    assert not missing
    found = experiment.find(settings, runs)
    assert len(found.rows) == len(ARMS)
    rows = {row["arm"]: row for row in found.rows}
    assert rows["window"]["extent"] == "1.75"
    # lam is still so near 0 that extent and slope make no difference five digits could show
    assert rows[EXTENT]["extent"] == "1.75"
    assert rows["slope learnt"]["slope"] == "10"
    more = {EXTENT: rows["window"], "slope learnt": rows["implicit"]}
    for arm, without in more.items():
        assert rows[arm]["parameters"] == without["parameters"] + 1
    assert any("not certified" in note for note in found.notes)
