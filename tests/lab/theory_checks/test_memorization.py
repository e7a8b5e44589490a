"""Curvature of the loss: the estimate against exact Hessians, and the law it follows."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ibnn
from ibnn.lab import data
from ibnn.lab.theory_checks.layers import capture
from ibnn.lab.theory_checks.memorization import section
from ibnn.lab.theory_checks.memorization.assumptions import check, mean_filter, pairs_within
from ibnn.lab.theory_checks.memorization.curvature import curvature, gradient_norms
from ibnn.lab.theory_checks.memorization.label_noise import roc_auc, train_on_wrong_labels
from ibnn.lab.theory_checks.memorization.scaling import (
    curvature_ratios,
    ideal_network,
    linear_scaling,
    paper_scaling,
    resolvent_scaling,
)
from ibnn.lab.theory_checks.one_hidden import OneHidden, binary_task, squared_error, train
from tests.lab.theory_checks.small_context import digits_context, whole

INPUTS = 5


def problem(lam=-0.2, sigma="tanh", examples=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    network = OneHidden(INPUTS, 7, lam, sigma=sigma, seed=seed).double()
    x = torch.rand(examples, INPUTS, generator=generator, dtype=torch.float64)
    y = (torch.arange(examples) % 2).double()
    return (lambda a, b: squared_error(network(a), b)), x, y, network


def exact_curvature(loss, x, y):
    """|H|_F^2 from the whole Hessian, one example at a time."""
    found = []
    for one, label in zip(x, y, strict=True):
        hessian = torch.func.jacrev(
            torch.func.jacrev(lambda a, b=label: loss(a.unsqueeze(0), b.unsqueeze(0))[0])
        )(one)
        found.append(hessian.square().sum())
    return torch.stack(found)


def every_sign(x):
    """All 2^INPUTS sign vectors: their mean of |H v|^2 is tr(H^2), with no chance left."""
    grid = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=x.dtype)] * x.shape[1])
    return grid.unsqueeze(1).expand(-1, len(x), -1)


@pytest.mark.parametrize("lam", [None, -0.5, 0.05])
def test_the_mean_over_all_signs_is_the_squared_norm_of_the_hessian(lam, monkeypatch):
    from ibnn.lab.theory_checks.memorization import curvature as module

    loss, x, y, _ = problem(lam)
    monkeypatch.setattr(module, "_signs", lambda x, count, generator: every_sign(x))
    found = curvature(loss, x, y, torch.Generator())
    torch.testing.assert_close(found, exact_curvature(loss, x, y), rtol=1e-8, atol=0)


def test_rademacher_directions_estimate_it():
    loss, x, y, _ = problem(None)
    exact = exact_curvature(loss, x, y)
    many = curvature(loss, x, y, torch.Generator().manual_seed(0), directions=1000)
    # |H v|^2 <= |H|^2 n, so the mean's standard error is below sqrt(n / 1000) = 7 %: 3 of them
    torch.testing.assert_close(many, exact, rtol=0.21, atol=0)


def test_the_difference_quotient_tends_to_the_exact_product():
    loss, x, y, _ = problem(-0.5)
    exact = curvature(loss, x, y, torch.Generator().manual_seed(1), directions=4)
    errors = [
        (curvature(loss, x, y, torch.Generator().manual_seed(1), directions=4, step=h) - exact)
        .abs()
        .max()
        / exact.max()
        for h in (1e-4, 1e-6)
    ]
    assert errors[1] < 1e-4
    assert errors[1] < errors[0] / 10  # first order in h


def test_a_batch_is_only_a_matter_of_speed(monkeypatch):
    from ibnn.lab.theory_checks.memorization import curvature as module

    loss, x, y, _ = problem(examples=6)
    whole = gradient_norms(loss, x, y)
    monkeypatch.setattr(module, "BATCH", 4)
    torch.testing.assert_close(gradient_norms(loss, x, y), whole, rtol=1e-12, atol=0)


def test_a_linear_loss_is_not_curved():
    x = torch.rand(3, 2)
    flat = curvature(lambda a, b: a.sum(1), x, torch.zeros(3), torch.Generator())
    assert (flat == 0).all()
    with pytest.raises(ValueError, match="directions is 0"):
        curvature(lambda a, b: a.sum(1), x, torch.zeros(3), torch.Generator(), directions=0)


@given(strength=st.floats(-2, 0.8), seed=st.integers(0, 20))
@settings(max_examples=20)
def test_where_all_assumptions_hold_the_exponent_is_four(strength, seed):
    x = torch.rand(6, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    y = (torch.arange(6) % 2).double()
    (found,) = curvature_ratios("", ideal_network(8, 10.0, seed), x, y, [strength], seed)
    # scores are not quite zero: l''(s) differs between the networks by a few percent
    assert found.curvature == pytest.approx(linear_scaling(strength), rel=0.15)
    assert found.gradient == pytest.approx(1 / (1 - strength), rel=0.05)


@pytest.mark.parametrize("strength", [-1.0, -0.5, 0.5])
def test_there_the_papers_laws_are_off(strength):
    x = torch.rand(6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = (torch.arange(6) % 2).double()
    (found,) = curvature_ratios("", ideal_network(8, 10.0, 0), x, y, [strength], 0)
    for law in (paper_scaling, resolvent_scaling):
        assert found.curvature != pytest.approx(law(strength), rel=0.2)


def test_the_papers_law_is_the_first_order_of_the_resolvent():
    for strength in (1e-3, -1e-3):
        assert paper_scaling(strength) == pytest.approx(resolvent_scaling(strength), abs=4e-6)


def test_every_assumption_holds_on_the_network_made_for_it():
    network = ideal_network(8, 10.0, 0)
    network.hidden.lam.fill_(-0.005)
    x = torch.rand(6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (layer,) = capture(network, ibnn.standard(network), x)
    assert all(a.holds for a in check(layer, torch.Generator().manual_seed(0)))


def cross_zero(network):
    network.hidden.bias.copy_(torch.linspace(-0.065, 0.025, len(network.hidden.bias)))


def share_a_filter(network):
    network.hidden.weight.abs_()
    network.head.weight.abs_()


BROKEN = {
    "ReLU in its linear range": cross_zero,
    "mean filter ≪ filters": share_a_filter,
    "|yₖ - yᵢ| < 1/p": lambda network: network.hidden.weight.mul_(1000),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_dropped_assumption_is_noticed_and_breaks_the_law(name):
    network, strength = ideal_network(8, 10.0, 0), -0.9
    network.hidden.lam.fill_(strength / 10)
    x = torch.rand(6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = (torch.arange(6) % 2).double()
    with torch.no_grad():
        BROKEN[name](network)
        # keep the scores small: only the assumption is dropped
        network.head.weight.mul_(1e-4)
        network.head.bias.zero_()
    (layer,) = capture(network, ibnn.standard(network), x)
    held = {a.name: a.holds for a in check(layer, torch.Generator().manual_seed(0))}
    assert not held[name]
    (found,) = curvature_ratios("", network, x, y, [strength], 0)
    assert abs(np.log(found.curvature / linear_scaling(strength))) > 0.3


def test_a_trained_network_can_go_the_other_way():
    # the paper's claim is for the weights of a trained network: there lam < 0 makes the network
    # less sure of its answers, and the loss more curved
    digits = data.load("digits")
    x, y = binary_task(digits, 80, 0)
    network = OneHidden(64, 32, 0.0, sigma="hardtanh")
    assert train(network, x, y, 50) > 0.95
    (found,) = curvature_ratios("trained", network, x, y, [-0.5], 0)
    assert found.curvature > 1
    assert linear_scaling(-0.5) < paper_scaling(-0.5) < 1


def test_pairs_are_counted_as_by_looking_at_each():
    rows = torch.randn(4, 9, generator=torch.Generator().manual_seed(0)).double()
    near = (rows[:, :, None] - rows[:, None]).abs() < 0.7
    wanted = (near.sum() - 36) / (4 * 9 * 8)
    assert pairs_within(rows, 0.7) == pytest.approx(float(wanted))
    assert pairs_within(rows[:, :1], 0.7) == 1.0


def test_the_mean_filter_is_measured_without_filters():
    _, x, _, network = problem()
    (layer,) = capture(network, ibnn.standard(network), x)
    weight = network.hidden.weight.detach()
    wanted = float(weight.mean(0).norm() / weight.norm(dim=1).square().mean().sqrt())
    found = mean_filter(layer, torch.Generator().manual_seed(0), directions=4000)
    assert found == pytest.approx(wanted, rel=0.1)  # 1/sqrt(4000) = 1.6 %, both norms


def test_one_hidden_is_the_same_network_with_and_without_bias():
    standard, implicit = OneHidden(4, 6, seed=3), OneHidden(4, 6, 0.0, seed=3)
    x = torch.rand(5, 4)
    torch.testing.assert_close(standard(x), implicit(x))
    before = torch.get_rng_state()
    OneHidden(4, 6, -0.2, seed=4)
    assert torch.equal(before, torch.get_rng_state())


def test_two_classes_are_the_halves_of_the_labels():
    digits = data.load("digits")
    x, y = binary_task(digits, 50, 0)
    assert x.shape == (50, 1, 8, 8)
    assert 0 <= x.min() < x.max() <= 1
    again, _ = binary_task(digits, 50, 0)
    assert torch.equal(x, again)
    assert 0.2 < y.mean() < 0.8


def test_the_area_is_the_chance_of_a_right_order():
    scores = torch.tensor([0.1, 0.5, 0.5, 0.9])
    assert roc_auc(scores, torch.tensor([False, True, False, True])) == pytest.approx(3.5 / 4)


def test_wrong_labels_are_learnt_and_found():
    digits = data.load("digits")
    found = train_on_wrong_labels(digits, -0.1, 10.0, 0, examples=60, steps=60)
    assert found.memorized > 0.5
    assert found.auc > 0.6
    assert copy.copy(found) == train_on_wrong_labels(digits, -0.1, 10.0, 0, examples=60, steps=60)


def test_the_section_tells_all_of_it():
    subject = digits_context()
    found = section.section(subject, lambda *step: None)
    assert whole(found, "memorization")
    assert [picture.name for picture in found.pictures] == [
        "memorization-curvature",
        "memorization-images",
    ]
    examples = [row for row in found.rows if row["what"] == "example"]
    assert len(examples) == len(subject.y)
