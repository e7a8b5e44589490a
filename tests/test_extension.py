"""Parts added from outside the package: a sigma, a coupling, a solver, an engine."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
import torch

import ibnn
from ibnn import engine, sigma, solver
from ibnn.coupling import PairSums
from ibnn.coupling.sums import MatrixSums
from tests import oracle
from tests.bank import ERROR_OF_Z
from tests.parts import Ring, Softsign


class RingSums(PairSums):
    """The same in O(D), for tests of a coupling with sums of its own."""

    name = "ring"

    def pair_sum(self, z, a, weight, order, sigma, units):
        total = torch.zeros_like(z)
        for shift in (-1, 1):
            values = sigma.derivative(z.roll(shift, -1) - z, order) / 2
            total += values if a is None else values * a.roll(shift, -1)
        return total

    def eigenvalue_bound(self, weight):
        return 2.0

    def self_weight(self, weight, units):
        return 0.0


class FastRing(Ring):
    sums = RingSums()

    def weight(self, dtype=None, units=None):
        return None


@dataclass(frozen=True)
class Damped(solver.Iteration):
    """Half a step of Picard's iteration at a time."""

    name: ClassVar[str] = "damped"
    max_steps: ClassVar[int] = 300

    def step(self, system, z, residual, state):
        return z - residual / 2, None, state


class Counting(engine.Engine):
    """Counts what it is asked, and leaves the work to the portable engine."""

    name = "counting"

    def __init__(self):
        self.served, self._by = [], engine.engines()["portable"]

    def declines(self, case):
        return self._by.declines(case) if case.dtype == torch.float64 else "it is for float64"

    def solve(self, case, *arguments):
        self.served.append(case.operation)
        return self._by.solve(case, *arguments)

    def adjoint(self, case, *arguments):
        self.served.append(case.operation)
        return self._by.adjoint(case, *arguments)

    def pair_sum(self, case, *arguments):
        self.served.append(case.operation)
        return self._by.pair_sum(case, *arguments)


@pytest.fixture
def y() -> torch.Tensor:
    return torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(4)) / 5


def gradient_is_right(function, y) -> bool:
    return torch.autograd.gradcheck(function, y.clone().requires_grad_())


def test_a_sigma_of_ones_own(y):
    z = ibnn.implicit_bias(y, -0.3, sigma=Softsign())
    assert ibnn.residual(z, y, -0.3, sigma=Softsign()).abs().max() < 1e-11
    assert gradient_is_right(lambda y: ibnn.implicit_bias(y, -0.3, sigma=Softsign()), y)


def test_a_registered_sigma_goes_by_its_name(y):
    sigma.register(Softsign())
    named = ibnn.ImplicitBias(-0.3, sigma="softsign", learn_lam=False, dtype=torch.float64)(y)
    torch.testing.assert_close(named, ibnn.implicit_bias(y, -0.3, sigma=Softsign()))


def test_a_name_registered_again_means_the_new_part_and_layers_keep_theirs(y):
    class Steeper(ibnn.Sigma):
        name = "often"

        def __init__(self, a):
            self.a = a

        def value(self, x):
            return torch.tanh(self.a * x) / self.a

        def primitive(self, x):
            return torch.log(torch.cosh(self.a * x)) / self.a**2

    @dataclass(frozen=True)
    class Partial(solver.Iteration):
        name: ClassVar[str] = "often"
        rate: float

        def step(self, system, z, residual, state):
            return z - self.rate * residual, None, state

    def solve(sigma, solver):
        solution = ibnn.solve(y, -0.03, sigma=sigma, solver=solver, on_failure="ignore")
        return solution.value, solution.steps

    options = {"learn_lam": False, "dtype": torch.float64, "solver": "often"}
    made = {}
    for a, rate in ((1.0, 1.0), (3.0, 0.5)):
        sigma.register(Steeper(a))
        solver.register(Partial(rate))
        expected = solve(Steeper(a), Partial(rate))
        for found, wanted in zip(solve("often", "often"), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        made[ibnn.ImplicitBias(-0.03, sigma="often", **options)] = expected
    for layer, (value, steps) in made.items():
        torch.testing.assert_close(layer(y), value, rtol=0, atol=0)
        assert layer.last_solve.steps == steps.max()


@pytest.mark.parametrize("units", [7, 100, 600], ids=["every pair", "a grid", "outliers"])
def test_a_built_in_sigma_stays_itself_after_its_name_was_registered_again(units, generator):
    class Other(Softsign):
        name = "tanh"

    y = torch.randn(units, dtype=torch.float64, generator=generator) / 5
    if units == 600:
        y[::100] *= 1e4  # no grid is long enough
    sigma.register(Other())
    z = ibnn.implicit_bias(y, -0.2, sigma=sigma.TANH, engine="portable", on_failure="raise")
    expected = oracle.solve_row(y.numpy(), -0.2, 10.0, sigma="tanh")
    atol = ERROR_OF_Z[torch.float64]
    torch.testing.assert_close(z, torch.from_numpy(expected), rtol=0, atol=atol)


@pytest.mark.parametrize("name", ["soft sign", "", "softsign\n"])
def test_a_name_with_spaces_is_refused(name):
    part = Softsign()
    part.name = name
    with pytest.raises(ValueError, match=r"sigma has name=.*; expected one without spaces"):
        sigma.register(part)


@pytest.mark.parametrize("ring", [Ring, FastRing])
@pytest.mark.parametrize("lam", [-0.3, 0.04])
def test_a_coupling_of_ones_own(ring, lam, y):
    weight = Ring().weight(torch.float64, (7,)).numpy()
    z = ibnn.implicit_bias(y, lam, coupling=ring(), on_failure="raise")
    for row, target in zip(z, y, strict=True):
        expected = oracle.solve_row(target.numpy(), lam, 10.0, weights=weight)
        torch.testing.assert_close(row, torch.from_numpy(expected), rtol=0, atol=1e-10)
    assert gradient_is_right(lambda y: ibnn.implicit_bias(y, lam, coupling=ring()), y)


def test_weights_that_are_not_written_out_are_not_taken_for_uniform_ones():
    y = torch.zeros(1, 8, dtype=torch.float64)  # where the ring has an eigenvalue of J of -0.6
    for ring in (Ring(), FastRing()):
        assert not ibnn.solve(y, 0.08, 10.0, coupling=ring, on_failure="ignore").unique.any()


def test_a_coupling_of_ones_own_inside_a_layer(y):
    layer = ibnn.Linear(7, 5, coupling=Ring(), lam=0.02, dtype=torch.float64)
    assert layer.effective_lam.item() == pytest.approx(0.02)
    layer(y).square().sum().backward()
    assert layer.lam.grad != 0
    again = ibnn.Linear(7, 5, coupling=Ring(), dtype=torch.float64)
    again.load_state_dict(layer.state_dict())
    torch.testing.assert_close(again(y), layer(y), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (torch.ones(3, 3) / 3, r"has shape \(3, 3\); expected \(7, 7\)"),
        (-torch.eye(7), "non-negative"),
        (torch.ones(7, 7).triu() / 7, "symmetric"),
        (torch.ones(7, 7), "sums to 7; expected at most 1"),
    ],
)
def test_weights_the_theory_does_not_allow_are_refused(matrix, said, y):
    class Wrong(ibnn.Coupling):
        def weight(self, dtype=None, units=None):
            return matrix.to(dtype)

    with pytest.raises(ValueError, match=said):
        ibnn.implicit_bias(y, -0.1, coupling=Wrong())


@pytest.mark.parametrize("returned", [None, [[0.0, 1.0], [1.0, 0.0]]])
def test_a_weight_that_is_no_tensor_is_refused(returned, y):
    class Forgotten(ibnn.Coupling):
        def weight(self, dtype=None, units=None):
            return returned

    kind = type(returned).__name__
    said = rf"Forgotten.weight returned {kind}; expected a tensor of shape \(7, 7\)"
    with pytest.raises(TypeError, match=said):
        ibnn.implicit_bias(y, -0.1, coupling=Forgotten())


def test_sums_of_ones_own_may_start_from_those_over_all_pairs(y):
    class Doubled(MatrixSums):
        name = "doubled"

        def pair_sum(self, z, a, weight, order, sigma, units):
            return 2 * super().pair_sum(z, a, weight, order, sigma, units)

    class Both(Ring):
        sums = Doubled()

    expected = ibnn.implicit_bias(y, -0.2, coupling=Ring())
    torch.testing.assert_close(ibnn.implicit_bias(y, -0.1, coupling=Both()), expected)


def test_a_solver_of_ones_own(y):
    expected = ibnn.implicit_bias(y, -0.05)
    torch.testing.assert_close(ibnn.implicit_bias(y, -0.05, solver=Damped()), expected)
    solver.register(Damped())
    torch.testing.assert_close(ibnn.implicit_bias(y, -0.05, solver="damped"), expected)


def test_options_of_numpy_are_numbers_like_others(y):
    for mine, same in (
        (solver.Gradient(tau=np.float64(0.25)), solver.Gradient(tau=0.25)),
        (solver.Anderson(memory=np.int64(3)), solver.Anderson(memory=3)),
    ):
        z = ibnn.implicit_bias(y, -0.05, solver=mine)
        assert torch.equal(z, ibnn.implicit_bias(y, -0.05, solver=same))
    assert torch.equal(
        ibnn.implicit_bias(y, -0.05, solver="picard", atol=Fraction(1, 10**6)),
        ibnn.implicit_bias(y, -0.05, solver="picard", atol=1e-6),
    )
    assert torch.equal(
        ibnn.implicit_bias(y, -0.05, coupling=ibnn.Uniform(np.int64(-1)), max_steps=np.int64(9)),
        ibnn.implicit_bias(y, -0.05, coupling=ibnn.Uniform(-1), max_steps=9),
    )
    assert ibnn.Dense(units=np.int64(3)).config() == ibnn.Dense(units=3).config()


def test_a_sigma_may_be_a_frozen_dataclass(y):
    @dataclass(frozen=True)
    class Mine(Softsign):
        width: float = 1.0

    z = ibnn.implicit_bias(y, -0.3, sigma=Mine())
    torch.testing.assert_close(z, ibnn.implicit_bias(y, -0.3, sigma=Softsign()))


def test_an_engine_of_ones_own(y, monkeypatch):
    counting = engine.register(Counting())
    y.requires_grad_()
    ibnn.implicit_bias(y, -0.1).sum().backward()
    assert counting.served == []  # it is asked after those that were known before
    ibnn.implicit_bias(y, -0.1, engine="counting").sum().backward()
    assert counting.served == ["solve", "adjoint"]
    monkeypatch.setenv("IBNN_ENGINE", "counting")
    ibnn.ImplicitBias(-0.1, dtype=torch.float64)(y)
    assert counting.served == ["solve", "adjoint", "solve"]
    with pytest.raises(engine.EngineError, match="'counting' cannot serve here: it is for float64"):
        ibnn.implicit_bias(y.float(), -0.1)


def test_an_unknown_engine_is_named(y):
    with pytest.raises(ValueError, match="engine='warp' is not known; expected one of"):
        ibnn.implicit_bias(y, -0.1, engine="warp")


def test_a_demanded_engine_leaves_couplings_it_cannot_solve_to_the_solver(y):
    z = ibnn.implicit_bias(y, -0.2, coupling=ibnn.Window(3), engine="portable")
    torch.testing.assert_close(z, ibnn.implicit_bias(y, -0.2, coupling=ibnn.Window(3)))
