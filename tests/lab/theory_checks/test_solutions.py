"""Certificates and the search for solutions, against equations that are solved by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import ibnn
from ibnn.lab.theory_checks.numerics.operator import BiasOperator
from ibnn.lab.theory_checks.solutions import section as solutions
from ibnn.lab.theory_checks.solutions import uniqueness
from ibnn.lab.theory_checks.solutions.search import find_solutions, follow
from ibnn.lab.theory_checks.solutions.uniqueness import SteepestWithin, certify_uniqueness
from ibnn.sigma import register, resolve
from tests import oracle
from tests.lab.theory_checks.small_context import digits_context, whole

THRESHOLD = 0.1  # of uniform weights and slope 10


def gaps(difference, lam, slope=10.0):
    """Every d with d = difference + lam tanh(slope d): the solutions of two units."""

    def left(d):
        return d - difference - lam * np.tanh(slope * d)

    grid = np.linspace(-abs(lam) - abs(difference) - 1e-3, abs(lam) + abs(difference) + 1e-3, 4001)
    values = left(grid)
    at = np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0)
    return np.array([brentq(left, grid[i], grid[i + 1], xtol=1e-14) for i in at])


@pytest.mark.parametrize("lam", [0.05, 0.099, 0.12, 0.2, 0.5])
@pytest.mark.parametrize("difference", [0.001, 0.03, 0.2])
def test_two_units_have_the_solutions_of_their_scalar_equation(difference, lam):
    y = torch.tensor([0.3 - difference / 2, 0.3 + difference / 2])
    found = find_solutions(y, lam)
    exact = gaps(float(y[1].double() - y[0].double()), lam)
    mine = (found.values[:, 1] - found.values[:, 0]).sort().values.numpy()
    np.testing.assert_allclose(mine, exact, atol=1e-8)
    np.testing.assert_allclose(found.values.mean(-1), 0.3, atol=1e-7)  # y is float32
    slopes = 1 - lam * 10 * (1 - np.tanh(10 * mine) ** 2)  # of the equation: J on the difference
    order = (found.values[:, 1] - found.values[:, 0]).argsort()
    np.testing.assert_allclose(found.smallest[order].numpy(), np.minimum(1, slopes), atol=1e-6)
    assert found.stable[order].tolist() == (slopes > 0).tolist()


def test_energies_are_sorted_and_are_those_of_the_oracle():
    y = np.array([-0.02, 0.0, 0.01])
    found = find_solutions(torch.from_numpy(y), 0.25)
    assert len(found) > 1
    exact = [oracle.energy_row(z, y, 0.25, 10.0) for z in found.values.numpy()]
    np.testing.assert_allclose(found.energies.numpy(), exact, atol=1e-9)
    assert (found.energies.diff() >= 0).all()
    assert found.stable[0]  # the lowest solution is a minimum
    for z in found.values.numpy():
        assert np.abs(oracle.residual_row(z, y, 0.25, 10.0)).max() < 1e-8


@given(seed=st.integers(0, 1000), share=st.floats(-3, 0.95), units=st.integers(2, 8))
@settings(max_examples=15)
def test_below_the_threshold_every_start_leads_to_one_solution(seed, share, units):
    y = 0.05 * np.random.default_rng(seed).standard_normal(units)
    found = find_solutions(torch.from_numpy(y), share * THRESHOLD, starts=8)
    assert len(found) == 1
    assert found.converged == found.starts
    exact = oracle.solve_row(y, share * THRESHOLD, 10.0)
    np.testing.assert_allclose(found.values[0].numpy(), exact, atol=1e-8)


def test_the_search_follows_the_coupling_and_the_sigma():
    # two units joined by all their weight: mu = 2, so the threshold is the paper's 1/(2 slope)
    coupling = ibnn.Dense(torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64))
    y = torch.zeros(2, dtype=torch.float64)
    assert ibnn.uniqueness_threshold(10.0, coupling) == pytest.approx(0.05)
    for sigma in oracle.SIGMAS:
        assert len(find_solutions(y, 0.049, coupling=coupling, sigma=sigma, starts=8)) == 1
        assert len(find_solutions(y, 0.06, coupling=coupling, sigma=sigma, starts=8)) == 3


def test_maps_of_units_are_searched_as_they_are():
    y = torch.zeros(3, 3, dtype=torch.float64)
    found = find_solutions(y, 0.3, coupling=ibnn.Window((3, 3)), starts=16)
    assert found.values.shape[1:] == (3, 3)
    assert int(found.stable.sum()) > 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"starts": -1}, "starts must be a non-negative int"),
        ({"lam": np.inf}, "lam must be finite"),
    ],
)
def test_bad_searches_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        find_solutions(torch.zeros(2), **{"lam": 0.1, **arguments})


def test_the_way_matters_above_the_threshold_and_not_below():
    at = torch.linspace(-0.05, 0.05, 41, dtype=torch.float64)
    inputs = torch.stack([-at, at], 1).unsqueeze(1)
    for lam, remembers in ((0.08, False), (0.2, True)):
        lams = torch.full((41, 1), lam)
        there = follow(inputs, lams, inputs[0])
        back = follow(inputs.flip(0), lams, there[-1]).flip(0)
        assert ((there - back).abs().max() > 1e-3) == remembers


@given(
    seed=st.integers(0, 1000),
    share=st.floats(0.5, 4),
    std=st.sampled_from([0.02, 0.1, 0.5, 2.0]),
    units=st.integers(2, 6),
    sigma=st.sampled_from(list(oracle.SIGMAS)),
)
@settings(max_examples=40)
def test_a_certificate_of_uniqueness_is_never_contradicted(seed, share, std, units, sigma):
    y = torch.from_numpy(std * np.random.default_rng(seed).standard_normal(units))
    lam = share * THRESHOLD
    z = ibnn.solve(y, lam, sigma=sigma, on_failure="ignore").value
    certificate = certify_uniqueness(y, z, lam, sigma=sigma)
    jacobian = oracle.jacobian_row(z.numpy(), lam, 10.0, sigma=sigma)
    smallest = np.linalg.eigvalsh(jacobian)[0]
    assert float(certificate.at_solution) == pytest.approx(smallest, abs=1e-6)
    assert float(certificate.everywhere) <= float(certificate.at_solution) + 1e-6
    if share < 1:
        assert certificate.unique
    if certificate.unique:
        assert len(find_solutions(y, lam, sigma=sigma, starts=8)) == 1


def test_certificates_reach_above_the_threshold_for_units_far_apart_only():
    far = torch.linspace(-3, 3, 5, dtype=torch.float64)
    near = 0.01 * far
    for y, expected in ((far, True), (near, False)):
        z = ibnn.solve(y, 3 * THRESHOLD, on_failure="ignore").value
        assert certify_uniqueness(y, z, 3 * THRESHOLD).unique.tolist() == [expected]


def test_for_negative_lam_everything_is_certified():
    y = torch.randn(4, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    certificate = certify_uniqueness(y, ibnn.implicit_bias(y, -0.5), -0.5)
    assert certificate.unique.all()
    torch.testing.assert_close(certificate.at_solution, torch.ones(4, dtype=torch.float64))


def test_a_sigma_that_falls_is_certified_nowhere_but_at_lam_zero():
    y = torch.tensor([-0.3, 0.3], dtype=torch.float64)
    assert len(find_solutions(y, -1.0, sigma="peaked", starts=32)) > 1
    for lam, expected in ((-1.0, False), (0.05, False), (0.0, True)):
        z = ibnn.solve(y, lam, sigma="peaked", on_failure="ignore").value
        certificate = certify_uniqueness(y, z, lam, sigma="peaked")
        assert certificate.stable
        assert certificate.unique.tolist() == [expected]


class Stepped(ibnn.Sigma):
    """Steepest at 2, where the certificate of the built-in ones does not look."""

    name, slope_bound, bound = "stepped", 4.1, 3.0

    def value(self, x):
        return torch.tanh(x) + torch.tanh(4 * (x - 2)) + torch.tanh(4 * (x + 2))

    def primitive(self, x):
        steps = torch.log(torch.cosh(4 * (x - 2)) * torch.cosh(4 * (x + 2)) / np.cosh(8) ** 2)
        return torch.log(torch.cosh(x)) + steps / 4


def test_a_sigma_of_ones_own_is_not_certified_for_being_registered():
    y, lam = torch.tensor([-0.05, 0.05], dtype=torch.float64), 0.05
    register(Stepped())
    found = find_solutions(y, lam, sigma="stepped")
    assert len(found) > 1
    assert not certify_uniqueness(y, found.values[0], lam, sigma="stepped").unique
    z = ibnn.implicit_bias(y, -lam, sigma="stepped")
    assert certify_uniqueness(y, z, -lam, sigma="stepped").unique


def test_long_rows_are_bounded_by_gershgorin(monkeypatch):
    y = torch.linspace(-40, 40, 500, dtype=torch.float64)
    z = ibnn.solve(y, 0.2, on_failure="ignore").value
    exact = certify_uniqueness(y, z, 0.2)
    monkeypatch.setattr(uniqueness, "LANCZOS_UNITS", 499)
    bounded = certify_uniqueness(y, z, 0.2)
    assert bounded.unique
    assert float(bounded.everywhere) <= float(exact.everywhere)


@pytest.mark.parametrize("name", list(oracle.SIGMAS))
def test_nearest_is_as_steep_as_sigma_within_the_gap(name):
    near = SteepestWithin(resolve(name), 0.7)
    x = torch.linspace(-4, 4, 81, dtype=torch.float64)
    moved = x.unsqueeze(-1) + torch.linspace(-0.7, 0.7, 281, dtype=torch.float64)
    steepest = resolve(name).derivative(moved, 1).amax(-1)
    # hardtanh jumps: at the jump itself either side is right
    smooth = ((x.abs() - 1.7).abs() > 1e-9) | torch.tensor(name != "hardtanh")
    torch.testing.assert_close(near.derivative(x, 1)[smooth], steepest[smooth], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", list(oracle.SIGMAS))
def test_nearest_has_a_primitive_of_its_own(name):
    near = resolve(SteepestWithin(resolve(name), 0.7))
    # no point is at a kink of hardtanh
    x = torch.linspace(-4, 4, 80, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(near.primitive(x).sum(), x)
    torch.testing.assert_close(slope, near.value(x), atol=1e-12, rtol=0)
    assert near.primitive(torch.zeros((), dtype=torch.float64)).abs() < 1e-15


@given(seed=st.integers(0, 1000), share=st.floats(0.05, 5), units=st.integers(2, 6))
@settings(max_examples=15)
def test_a_stable_solution_for_positive_lam_compresses_nothing(seed, share, units):
    """The paper allows norms below 1 for some lam > 0: only where no minimum is."""
    y = 0.03 * np.random.default_rng(seed).standard_normal(units)
    found = find_solutions(torch.from_numpy(y), share * THRESHOLD, starts=8)
    spectrum = BiasOperator(found.values[found.stable], share * THRESHOLD).spectrum()
    assert (spectrum >= 1 - 1e-9).all()


def test_an_unstable_solution_for_large_lam_is_what_the_paper_describes():
    # equal units at lam = 3 T: |k| = 1/2 in every direction but the mean, at a saddle
    operator = BiasOperator(torch.zeros(1, 5, dtype=torch.float64), 0.3)
    spectrum = operator.spectrum()[0]
    torch.testing.assert_close(spectrum[:4], torch.full((4,), -0.5, dtype=torch.float64))
    certificate = certify_uniqueness(operator.z, operator.z, 0.3)
    assert not certificate.stable
    assert float(certificate.at_solution) == pytest.approx(-2)


@pytest.mark.parametrize("kernel", ["uniform", "dense"])
def test_a_jacobian_written_out_is_the_one_of_products(kernel):
    units = 5
    coupling = ibnn.Uniform(-1) if kernel == "uniform" else ibnn.Dense(units=units)
    draw = torch.Generator().manual_seed(0)
    z = 0.1 * torch.randn(3, units, generator=draw, dtype=torch.float64)
    operator = BiasOperator(z, torch.tensor([-1.0, 0.05, 0.3]), coupling=coupling)
    columns = [operator.jacobian(column.expand(3, -1)) for column in torch.eye(units).double()]
    torch.testing.assert_close(operator.dense_jacobian(), torch.stack(columns, 2))


def test_long_rows_are_looked_at_with_some_of_their_units(monkeypatch):
    monkeypatch.setattr(solutions, "MOST_UNITS", 16)
    found = solutions.section(digits_context(), lambda *step: None)
    assert whole(found, "solutions")
    assert "16 of their 64 units, drawn at random" in found.notes[-1]
    assert "rows of 16 units" in found.pictures[0].caption
