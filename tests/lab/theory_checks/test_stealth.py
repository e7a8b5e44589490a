"""The stealth attack: exact against a network built by hand, and the bound on what it leaks."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ibnn
from ibnn.lab import data
from ibnn.lab.theory_checks.one_hidden import OneHidden, binary_task, train
from ibnn.lab.theory_checks.stealth import section as stealth
from ibnn.lab.theory_checks.stealth.attacks import ATTACKS, Plan
from ibnn.lab.theory_checks.stealth.network import AddedNeuron, Victim, mixed_precision_solve
from ibnn.lab.theory_checks.stealth.section import wanted_gain
from ibnn.lab.theory_checks.stealth.verification import (
    counts,
    expected_largest,
    undetected_probability,
)
from tests import oracle
from tests.lab.theory_checks.small_context import digits_context, whole

INPUTS, UNITS = 3, 6


def victim_of(lam, rescaled=False, seed=0):
    return Victim.of(OneHidden(INPUTS, UNITS, lam, seed=seed).double(), rescaled)


def neuron_of(seed=0, bias=0.0, triggers=2):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(triggers, INPUTS, generator=generator, dtype=torch.float64)
    out = torch.randn(triggers, generator=generator, dtype=torch.float64)
    return AddedNeuron(weight, torch.full_like(out, bias), out)


def by_hand(victim, neuron, x, trigger):
    """s_a(x) of the D + 1 network, written out and solved by the reference of the tests."""
    weight = np.vstack([victim.weight, neuron.weight[trigger]])
    bias = np.append(victim.bias, neuron.bias[trigger])
    head = np.append(victim.head, neuron.out[trigger])
    y = weight @ x.numpy() + bias
    if victim.lam is not None:
        own = 1 / (UNITS + 1) if victim.rescaled else 1 / UNITS
        between = np.full((UNITS + 1, UNITS + 1), own)
        y = oracle.solve_row(y, victim.lam, victim.slope, weights=between)
    return float(head @ np.maximum(y, 0) + victim.offset.numpy())


@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("lam", [None, -1.0, -0.2, 0.05])
def test_the_attacked_network_is_the_one_built_by_hand(lam, rescaled):
    victim, neuron = victim_of(lam, rescaled), neuron_of()
    x = torch.rand(4, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    attacked = victim.score(x) + victim.change(victim.respond(x), neuron)
    wanted = [[by_hand(victim, neuron, one, t) for one in x] for t in range(2)]
    np.testing.assert_allclose(attacked, wanted, atol=1e-9)


@pytest.mark.parametrize("lam", [None, -0.2, 0.05])
def test_the_score_is_the_networks_own(lam):
    network = OneHidden(INPUTS, UNITS, lam).double()
    x = torch.rand(5, INPUTS, dtype=torch.float64)
    torch.testing.assert_close(Victim.of(network).score(x), network(x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("lam", [None, -0.5, 0.05])
def test_an_aimed_neuron_gains_exactly_what_was_wanted(lam):
    victim, neuron = victim_of(lam), neuron_of(bias=1.0)
    triggers = torch.rand(2, INPUTS, dtype=torch.float64)
    neuron = replace(neuron, weight=neuron.weight.abs())  # awake
    gain = torch.tensor([0.7, -0.4], dtype=torch.float64)
    aimed = victim.aimed(triggers, gain, neuron)
    change = victim.change(victim.respond(triggers.unsqueeze(1)), aimed)[:, 0]
    torch.testing.assert_close(change, gain, rtol=0, atol=1e-9)


@pytest.mark.parametrize("sigma", ["tanh", "hardtanh", "arctan", "erf"])
@pytest.mark.parametrize("lam", [-2.0, -0.1, 0.05])
@pytest.mark.parametrize("units", [2, 9, 65, 300])
def test_a_mixed_precision_solution_is_the_float64_one(units, lam, sigma):
    y = torch.randn(20, units, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y[:, -1] *= 30  # an added unit may be far away
    exact = ibnn.implicit_bias(y, lam, sigma=sigma)
    torch.testing.assert_close(mixed_precision_solve(y, lam, sigma=sigma), exact, rtol=0, atol=1e-9)
    # while float32 alone is not
    rough = ibnn.implicit_bias(y.float(), lam, sigma=sigma).double()
    assert (rough - exact).abs().max() > 1e-8


def test_gradients_of_a_float64_attack_are_not_lost():
    victim, neuron = victim_of(-0.2), neuron_of(bias=1.0)
    bias = neuron.bias.clone().requires_grad_()
    change = victim.change(
        victim.respond(torch.rand(5, INPUTS).double()), replace(neuron, bias=bias)
    )
    (slope,) = torch.autograd.grad(change.sum(), bias)
    assert (slope != 0).all()


def test_a_neuron_asleep_at_its_trigger_has_failed():
    victim, neuron = victim_of(-0.2), neuron_of(bias=-50.0)
    aimed = victim.aimed(torch.rand(2, INPUTS).double(), torch.ones(2).double(), neuron)
    assert (aimed.out == 0).all()


@given(
    lam=st.floats(-2, 0.095),
    rescaled=st.booleans(),
    seed=st.integers(0, 50),
    bias=st.floats(-20, -8),
)
@settings(max_examples=40)
def test_a_silent_neuron_leaks_no_more_than_the_bound(lam, rescaled, seed, bias):
    # 1/D kept among D + 1 units acts as lam (D + 1)/D: keep that below the threshold 1/p
    victim, neuron = victim_of(min(lam, 0.08), rescaled, seed), neuron_of(seed, bias)
    x = torch.rand(5, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    seen = victim.respond(x)
    _, added = victim.attacked(seen, neuron)
    assert (added < 0).all()
    assert victim.change(seen, neuron).abs().max() <= victim.leak_bound() + 1e-9


def test_an_awake_neuron_is_not_bound_by_it():
    victim, neuron = victim_of(-0.2), neuron_of(bias=5.0)
    change = victim.change(victim.respond(torch.rand(5, INPUTS).double()), neuron)
    assert change.abs().max() > victim.leak_bound()


def test_a_silent_neuron_changes_a_standard_network_not_at_all_and_an_implicit_one_a_little():
    x = torch.rand(5, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for lam, least in ((None, 0.0), (-0.2, 1e-4)):
        victim = victim_of(lam)
        change = victim.change(victim.respond(x), neuron_of(bias=-20.0)).abs().max()
        assert change == 0 if lam is None else least < change <= victim.leak_bound()


def test_the_leak_falls_with_the_number_of_units():
    bounds = [Victim.of(OneHidden(INPUTS, units, -0.2)).leak_bound() for units in (16, 256)]
    # weights of torch's initialization: |c|_1 / D falls as 1 / sqrt(D)
    assert bounds[1] == pytest.approx(bounds[0] / 4, rel=0.4)


@pytest.fixture(scope="module", params=[None, -0.2], ids=["standard", "implicit"])
def trained(request):
    digits = data.load("digits")
    x, y = binary_task(digits, 150, 0)
    network = OneHidden(64, 64, request.param)
    assert train(network, x, y, 60) > 0.9
    held, _ = binary_task(digits, 154, 0, "test")
    return Victim.of(network), x.flatten(1), held[:4].flatten(1), held[4:].flatten(1)


def test_one_neuron_with_a_threshold_goes_undetected_on_either_network(trained):
    victim, x, triggers, pool = trained
    gain = wanted_gain(victim, triggers, x)
    flipped = (victim.score(triggers) + gain > 0) != (victim.score(triggers) > 0)
    assert flipped.all()
    plan = Plan(triggers, gain, x, steps=20)
    largest = {}
    for name, attack in ATTACKS.items():
        neuron = attack(victim, plan)
        at = victim.change(victim.respond(triggers.unsqueeze(1)), neuron)[:, 0]
        torch.testing.assert_close(at, gain, rtol=1e-3, atol=0)
        changes = victim.change(victim.respond(pool), neuron) / gain.unsqueeze(1)
        largest[name] = changes.abs().amax(1)
    # the paper's argument needs the neuron without a threshold, which is seen on both
    assert (largest["no threshold"] > 0.3).all()
    assert (largest["optimized"] < 0.02).sum() >= 3
    assert largest["optimized"].median() <= largest["threshold"].median()


def test_attacks_are_repeatable(trained):
    victim, x, triggers, _ = trained
    plan = Plan(triggers, wanted_gain(victim, triggers, x), x, steps=3)
    first, second = (ATTACKS["optimized"](victim, plan) for _ in range(2))
    assert torch.equal(first.weight, second.weight)
    longest = victim.weight.norm(dim=1).max()
    torch.testing.assert_close(first.weight.norm(dim=1), longest.expand(4))


def test_chances_are_those_of_counting_every_draw():
    changes = torch.tensor([0.0, 0.3, 0.05, 0.2, 0.0, 0.6])
    for n in (1, 2, 4, 6):
        draws = list(combinations(changes.tolist(), n))
        undetected = sum(max(draw) <= 0.2000001 for draw in draws) / len(draws)
        assert undetected_probability(changes, n, 0.2000001) == pytest.approx(undetected)
        mean = math.fsum(max(draw) for draw in draws) / len(draws)
        assert expected_largest(changes, n) == pytest.approx(mean)
    with pytest.raises(ValueError, match="expected 1 to 6"):
        undetected_probability(changes, 7, 0.1)
    assert counts(30) == [1, 2, 5, 10, 20, 30]


def test_the_section_tells_all_of_it(monkeypatch):
    small = stealth.Budget(2, 40, 3, 20, 30, (4, 8), (10.0,))
    monkeypatch.setattr(stealth, "QUICK", small)
    found = stealth.section(digits_context(), lambda *step: None)
    assert whole(found, "stealth")
    # three attacks on a standard network and on both weightings of the implicit one, per width,
    # and a longer filter on the wider networks as the paper weighs them
    assert len(found.tables[0].rows) == 2 * 9 + 2
    assert {row["examples"] for row in found.rows} == {1, 2, 5, 10, 20, 30}
    assert all(0 <= row["undetected"] <= 1 for row in found.rows)
