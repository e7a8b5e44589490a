"""The page's scripts give what the library gives: z, energy, J, gradients of whole networks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ibnn
from ibnn.lab.playground import PAGE
from tests.lab.playground.make_cases import CASES
from tests.lab.playground.scripts import NODE, run_module

pytestmark = pytest.mark.skipif(NODE is None, reason="no Node.js is installed")

ANSWERS = Path(__file__).with_name("answers.js")
# What the library promises in float64: z to 1e-10, gradients to 1e-8 of their size. Energies,
# eigenvalues and logits follow from z with derivatives below 10 * slope = 1000 in these cases.
CLOSE = {"rtol": 1e-8, "atol": 1e-8}


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    return json.loads(CASES.read_text())


def ask(cases: dict[str, Any]) -> dict[str, Any]:
    source = f'import {{ answers }} from "{ANSWERS.as_uri()}";'
    return run_module(f"{source} const answer = await answers('{PAGE.as_uri()}/', given);", cases)


@pytest.fixture(scope="module")
def answers(cases) -> dict[str, Any]:
    return ask(cases)


def assert_same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected) > 0
    for answer, case in zip(found, expected, strict=True):
        for name, value in answer.items():
            np.testing.assert_allclose(
                value, case[name], **CLOSE, err_msg=f"{name} of {case['lam']=} {case['slope']=}"
            )


def test_the_solve_and_its_gradients_agree_with_the_library(answers, cases):
    assert_same(answers["neurons"], cases["neurons"])


def test_the_gradients_of_whole_networks_agree_with_torch(answers, cases):
    assert_same(answers["networks"], cases["networks"])


def test_above_the_threshold_the_solve_ends_in_a_minimum_downhill_of_the_start():
    random = np.random.default_rng(0)
    problems = [
        {"y": random.normal(0, std, units).tolist(), "lam": factor / slope, "slope": slope}
        for units in (2, 3, 5, 8)
        for slope in (3.0, 10.0, 30.0)
        for factor in (1.05, 1.5, 4.0)
        for std in (0.001, 0.3)
    ]
    found = ask({"neurons": problems, "networks": []})["neurons"]
    for problem, answer in zip(problems, found, strict=True):
        y, z = (torch.tensor(row, dtype=torch.float64) for row in (problem["y"], answer["z"]))
        lam, slope = problem["lam"], problem["slope"]
        assert ibnn.residual(z, y, lam, slope).abs().max() < 1e-12
        assert ibnn.energy(z, y, lam, slope) <= ibnn.energy(y, y, lam, slope)
        assert answer["eigenvalues"][0] > 0
        if y.abs().max() < 0.01 and lam * slope > 1.1:
            # the solution near y is a saddle: it must have been left for one of order 1/slope
            assert np.ptp(answer["z"]) > 0.5 / slope


def test_the_points_lie_where_the_laboratory_puts_them(answers, cases):
    assert answers["arrow_outlines"] == cases["arrow_outlines"]
    for name, shape in answers["shapes"].items():
        points, labels = np.array(shape["points"]).reshape(-1, 2), np.array(shape["labels"])
        assert labels.sum() == len(labels) / 2
        assert np.abs(points).max() < 1.2, name
    circle = np.hypot(*np.array(answers["shapes"]["circles"]["points"]).reshape(-1, 2).T)
    for label, radius in ((0, 0.85), (1, 0.4)):
        of_class = circle[np.array(answers["shapes"]["circles"]["labels"]) == label]
        # 200 normal radii of standard deviation 0.06: their mean within five standard errors
        assert abs(of_class.mean() - radius) < 5 * 0.06 / np.sqrt(200)
