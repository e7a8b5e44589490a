"""Intermediate states: gradients through unfinished solves, by brute force and closed forms."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ibnn
from ibnn.lab.attacks import PGD, IntermediateStates, evaluate
from ibnn.lab.attacks.intermediate import stopped, through
from ibnn.lab.attacks.losses import climb, cross_entropy
from tests.lab.attacks import digits, exact

SLOPE = 10.0


def network(lam: float, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """Two implicit layers: states of the first are what the second begins with."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Flatten(),
            ibnn.Linear(9, 8, lam=lam, slope=SLOPE, learn_lam=False, bounded=False),
            nn.LeakyReLU(),
            ibnn.Linear(8, 6, lam=lam, slope=SLOPE, learn_lam=False, bounded=False),
            nn.LeakyReLU(),
            nn.Linear(6, 3),
        ).to(dtype)


def by_hand(model: nn.Sequential, x: Tensor, lam: float, steps: int) -> Tensor:
    """The logits with the damped iteration written out over all pairs of units."""
    tau = 1 / (1 + max(0.0, -lam) * SLOPE)
    z = x.flatten(1)
    for layer in list(model)[1:]:
        if not isinstance(layer, ibnn.Linear):
            z = layer(z)
            continue
        y = F.linear(z, layer.weight, layer.bias)
        z = y
        for _ in range(steps):
            heard = torch.tanh(SLOPE * (z[:, None, :] - z[:, :, None])).mean(2)
            z = (1 - tau) * z + tau * (y - lam * heard)
    return z


def problem(count: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.rand(count, 1, 3, 3, generator=generator, dtype=torch.float64)
    return x, torch.arange(count) % 3


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("lam", [-0.5, -0.2, 0.09])
def test_states_and_their_gradients_are_those_written_out_by_hand(lam, steps):
    model, (x, y) = network(lam), problem()
    leaf = x.clone().requires_grad_()
    expected = by_hand(model, leaf, lam, steps)
    (gradient,) = torch.autograd.grad(cross_entropy(expected, y).sum(), leaf)
    logits, _, found = climb(stopped(model, steps), x, y, cross_entropy)
    # the sums of float64 are good to 1e-10, and a layer has a few hundred terms
    torch.testing.assert_close(logits, expected.detach(), rtol=0, atol=1e-8)
    torch.testing.assert_close(found, gradient, rtol=0, atol=1e-8)


@pytest.mark.parametrize("lam", [-0.5, 0.05])
def test_no_step_is_the_twin_and_many_steps_are_the_solution(lam):
    model, (x, y) = network(lam), problem()
    for steps, same in ((0, ibnn.standard(model)), (400, model)):
        ours, theirs = (climb(net, x, y, cross_entropy) for net in (stopped(model, steps), same))
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-8)
    early, late = (climb(stopped(model, n), x, y, cross_entropy)[2] for n in (1, 400))
    assert (early - late).abs().max() > 1e-3  # else this test could not fail


def test_the_mean_counts_every_gradient_at_length_one():
    model, (x, y) = network(-0.5), problem()
    states = [stopped(model, n) for n in (0, 2)]
    logits, values, found = through(states, exact=True)(model, x, y, cross_entropy)
    each = [climb(net, x, y, cross_entropy)[2] for net in (*states, model)]
    units = [g / g.flatten(1).norm(dim=1).reshape(-1, 1, 1, 1) for g in each]
    torch.testing.assert_close(found, sum(units))
    with torch.no_grad():
        torch.testing.assert_close(logits, model(x))
        torch.testing.assert_close(values, cross_entropy(model(x), y))
    alone = through(states[:1], exact=False)(model, x, y, cross_entropy)
    torch.testing.assert_close(alone[2], units[0])
    torch.testing.assert_close(alone[0], logits)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("lam", [-0.5, 0.09])
def test_two_units_fall_exactly_where_they_must(norm, lam):
    """The order of units is kept: the answer, and so the ball, is that of the linear layer."""
    linear = exact.linear((1, 4, 4), 2)
    hidden = ibnn.Linear(16, 2, lam=lam, slope=SLOPE, learn_lam=False)
    with torch.no_grad():
        hidden.weight.copy_(linear[1].weight)
        hidden.bias.copy_(linear[1].bias)
    model = nn.Sequential(nn.Flatten(), hidden)
    x, y = exact.images(model, 100, (1, 4, 4), spread=1.0 if norm == "linf" else 0.4)
    nearest = exact.smallest(linear, x, y, norm)
    for eps in {"linf": (0.02, 0.05), "l2": (0.05, 0.1)}[norm]:
        expected = nearest < eps
        assert 0 < expected.sum() < len(x)
        found = IntermediateStates(eps, steps=20, states=(1, 4), norm=norm)(model, x, y)
        sure = (nearest - eps).abs() > 1e-5 * eps
        assert torch.equal(found.success[sure], expected[sure])


class Saturated(nn.Module):
    """Two opposite units, pushed apart twenty times until tanh is flat in float32: the exact
    gradient is 0, that of the first states is not. The answer is the linear layer's."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.hidden = ibnn.Linear(16, 2, lam=0.095, slope=SLOPE, learn_lam=False)
        with torch.no_grad():
            half = (linear.weight[0] - linear.weight[1]) / 2
            offset = (linear.bias[0] - linear.bias[1]) / 2
            self.hidden.weight.copy_(0.01 * torch.stack([half, -half]))
            self.hidden.bias.copy_(0.01 * torch.stack([offset, -offset]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(3000 * self.hidden(x.flatten(1)))


def test_it_passes_where_the_solution_hides_its_gradient():
    linear = exact.linear((1, 4, 4), 2)
    model = Saturated(linear[1]).eval()
    x, y = exact.images(model, 80, (1, 4, 4))
    gradient = climb(model, x, y, cross_entropy)[2].flatten(1)
    assert (gradient == 0).all(1).double().mean() > 0.5
    eps = 0.1
    must_fall = exact.smallest(linear, x, y, "linf") < eps
    blind = PGD(eps, restarts=5)(model, x, y)
    assert blind.success.sum() < 0.7 * must_fall.sum()
    found = IntermediateStates(eps)(model, x, y)
    assert torch.equal(found.success, must_fall)


def test_more_states_and_restarts_never_help_the_defender():
    model, (x, y) = digits.trained("implicit"), digits.images()
    few = IntermediateStates(digits.EPS, steps=3, restarts=1, states=(1,))(model, x, y)
    more = IntermediateStates(digits.EPS, steps=3, restarts=3, states=(1,))(model, x, y)
    assert (few.success <= more.success).all()
    assert few.success.sum() < len(x)


def test_a_network_without_a_solve_meets_no_such_attack():
    x, y = digits.images(20)
    for neuron, names in (
        ("standard", ["pgd-linf"]),
        ("implicit", ["pgd-linf", "intermediate-linf"]),
    ):
        found = evaluate(
            digits.trained(neuron), x, y, eps=digits.EPS, attacks="pgd,intermediate", checks=False
        )
        assert [row.name for row in found.rows] == names


def test_the_model_is_left_as_it_was():
    model, (x, y) = network(-0.5).train(), problem()
    before = [(layer.solver, layer.adjoint) for layer in (model[1], model[3])]
    IntermediateStates(0.1, steps=2)(model, x, y)
    assert [(layer.solver, layer.adjoint) for layer in (model[1], model[3])] == before
    assert model.training
    assert all(parameter.requires_grad for parameter in model[1].parameters() if parameter.ndim)


@pytest.mark.parametrize("states", [(), (-1,), (1.5,)])
def test_wrong_states_are_named(states):
    with pytest.raises(ValueError, match=r"states is .*, expected whole numbers of 0 or more"):
        IntermediateStates(0.1, states=states)
