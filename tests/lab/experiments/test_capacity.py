"""Capacity: restarts that are what they claim, and sentences that follow the numbers."""

import csv
import json
import re
from dataclasses import replace

import pytest
import torch

from ibnn.lab import data
from ibnn.lab.cli import main
from ibnn.lab.experiments import Settings, execute, get
from ibnn.lab.experiments.capacity import claims
from ibnn.lab.experiments.capacity.restarts import fit
from ibnn.lab.experiments.capacity.search import Search, searched
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.report import write_report
from ibnn.lab.training import RunConfig, build_network

PLANE = RunConfig(dataset="circles", network="perceptron", hidden=3)
IMPLICIT = PLANE.replace(neuron="implicit", lam=-0.5, learn_lam=False)


def points():
    return data.load("circles").first(300, 200)


@pytest.mark.parametrize("config", [PLANE, IMPLICIT], ids=["standard", "implicit"])
def test_a_restart_is_the_perceptron_it_is_said_to_be(config):
    found = fit(config, points(), restarts=3, steps=40)
    for number in range(3):
        network = build_network(config, (2,), 2).eval()
        network.load_state_dict(found.weights[number])
        with torch.no_grad():
            logits = network(points().x_train).squeeze(1)
        accuracy = ((logits > 0) == (points().y_train > 0)).double().mean()
        # the ensemble and the single network round differently: one point on the boundary
        assert float(accuracy) == pytest.approx(found.train[number], abs=1.5 / 300)


def test_restarts_do_not_depend_on_their_company():
    alone = fit(PLANE, points(), restarts=1, steps=30)
    among = fit(PLANE, points(), restarts=4, steps=30)
    for name, value in alone.weights[0].items():
        # 30 steps of Adam in float32; sums over other shapes may be rounded otherwise
        torch.testing.assert_close(value, among.weights[0][name], rtol=1e-3, atol=1e-4)


def test_three_units_find_their_way_round_a_disc():
    # a disc is convex: three lines cut off its three sides, and enough steps find them
    found = fit(PLANE, points(), restarts=8, steps=400)
    assert max(found.train) > 0.9
    assert found.ranked()[0] == found.train.index(max(found.train))


def search(train, config=PLANE, solidity=1.0, curved=0.0) -> Search:
    entry = {"train": max(train), "validation": 0.9, "solidity": solidity, "curved": curved}
    entries = [entry, {**entry, "curved": curved + 0.01}]
    return Search(Run(config, None, None, {}), train, train, entries)


def parts(standard, implicit, **more) -> claims.Parts:
    return claims.Parts(
        standard=search(standard),
        by_lam={-0.5: search(implicit, IMPLICIT, **more)},
        by_slope={},
        by_units={3: search(standard), 4: search([0.99, 0.95])},
    )


def test_expressivity_needs_a_better_network_and_a_settled_search():
    plateau = [0.94, 0.94, 0.94, 0.8]
    assert claims.expressive(parts(plateau, [1.0, 0.8, 0.7, 0.7])).agrees == "yes"
    assert claims.expressive(parts(plateau, [0.9, 0.9, 0.9, 0.7])).agrees == "no"
    assert claims.expressive(parts(plateau, [0.942, 0.8, 0.7, 0.7])).agrees == "not decided"
    lucky = [0.94, 0.9, 0.85, 0.8]  # one restart only: a better one may exist
    assert claims.expressive(parts(lucky, [1.0, 0.8, 0.7, 0.7])).agrees == "not decided"


def test_units_are_counted_by_the_best():
    assert claims.units_needed(parts([0.94], [0.98])) == 4
    assert claims.units_needed(parts([0.94], [1.0])) is None
    assert claims.units_needed(parts([0.94], [0.93])) == 3
    assert claims.claims(parts([0.94], [0.93]))[-1].agrees == "no"
    # a hair's breadth, and a search that did not settle, are worth no unit
    plateau = [0.94, 0.94, 0.94]
    for standard, implicit in ((plateau, [0.9405]), ([0.94], [1.0])):
        assert claims.claims(parts(standard, implicit))[-1].agrees == "not decided"
    assert claims.claims(parts(plateau, [1.0]))[-1].agrees == "yes"
    alone = replace(parts(plateau, [1.0]), standard=None, by_units={4: search([0.99])})
    assert claims.claims(alone)[-1].agrees == "not decided"
    assert "not even 4 standard units" in claims.headline(parts([0.94], [1.0]))
    assert "4 standard units match" in claims.headline(parts([0.94], [0.98]))


def test_convexity_turns_with_the_regions():
    assert claims.non_convex(parts([0.9], [0.9], solidity=0.8)).agrees == "yes"
    assert claims.non_convex(parts([0.9], [0.9], solidity=0.99)).agrees == "no"
    bent = replace(parts([0.9], [0.9], solidity=0.8), standard=search([0.9], solidity=0.7))
    assert claims.non_convex(bent).agrees == "no"


@pytest.mark.parametrize(("sign", "answer"), [(1, "yes"), (-1, "no")])
def test_a_trend_turns_with_the_numbers(sign, answer):
    rising = {p: search([0.9], curved=0.5 + sign * 0.1 * i) for i, p in enumerate((1, 3, 10, 30))}
    assert claims.trend("", rising, "p", "more").agrees == answer
    # one value apart from three that are alike is no trend
    alone = {p: search([0.9], curved=0.5 + sign * (i > 0)) for i, p in enumerate((1, 3, 10, 30))}
    claim = claims.trend("", {**alone, 0.1: search([0.9], curved=0.5)}, "p", "more")
    assert claim.agrees == "not decided"
    flat = {p: search([0.9], curved=0.5) for p in (1, 3, 10, 30)}
    assert claims.trend("", flat, "p", "more").agrees == "not decided"


def test_what_was_found_survives_json():
    found = fit(IMPLICIT, points(), restarts=2, steps=10)
    stored = json.loads(json.dumps(searched(IMPLICIT, points(), found)))
    again = Search.of(Run(IMPLICIT, None, None, stored))
    best = found.weights[found.ranked()[0]]
    for name, value in again.network().state_dict().items():
        torch.testing.assert_close(value, best[name])


def test_the_whole_on_few_points(tmp_path):
    settings = Settings(preset="smoke")
    assert execute(get("capacity"), settings, tmp_path).ok
    folder = write_report(get("capacity"), settings, tmp_path).parent
    findings = json.loads((folder / "findings.json").read_text())
    assert findings["missing"] == 0
    assert len(findings["claims"]) == 5
    assert "5 pairs" not in findings["rule"]
    assert "rank correlation" in findings["rule"]
    for picture in ("capacity", "units", "restarts"):
        assert (folder / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "capacity.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 4 * 15


def test_the_command_says_beforehand_how_long_the_search_takes(tmp_path, capsys):
    def call() -> str:
        with pytest.raises(SystemExit) as end:
            main(f"run capacity --preset smoke --out {tmp_path}".split())
        assert end.value.code == 0
        return capsys.readouterr().out

    first = call().splitlines()
    assert re.fullmatch(r"About \d+ s to measure 15 runs of capacity, estimated from .*", first[1])
    assert "to measure" not in call()  # nothing is left to do
