"""The oracle itself is judged by closed forms, by scipy and by finite differences."""

import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import erf

from tests import bank, oracle

SIGMAS = list(oracle.SIGMAS)
EPS = oracle.EPS


def settings(problem):
    return problem.lam, problem.slope, problem.coupling.weights, problem.sigma


@pytest.mark.parametrize("sigma", SIGMAS)
def test_every_sigma_has_slope_one_at_zero_and_saturates_at_one(sigma):
    value, derivative, primitive = oracle.SIGMAS[sigma]
    assert value(np.zeros(1)) == primitive(np.zeros(1)) == 0
    assert derivative(np.zeros(1)) == 1
    # arctan, the slowest, misses 1 by (2/pi)^2 / x.
    assert 1 - 0.41 / 1e6 < value(np.array([1e6]))[0] <= 1


@pytest.mark.parametrize("sigma", SIGMAS)
def test_value_derivative_and_primitive_belong_together(sigma):
    value, derivative, primitive = oracle.SIGMAS[sigma]
    x = np.linspace(-3, 3, 41) + 0.013  # off the kinks of hardtanh
    step = 1e-5
    # Central differences: third derivatives are below 2, rounding is below 1e-15 / step.
    tolerance = 2 * step**2 + 1e-15 / step
    np.testing.assert_allclose(
        (value(x + step) - value(x - step)) / (2 * step), derivative(x), atol=tolerance, rtol=0
    )
    np.testing.assert_allclose(
        (primitive(x + step) - primitive(x - step)) / (2 * step), value(x), atol=tolerance, rtol=0
    )


def test_elementary_functions_have_the_digits_of_numpy_and_scipy():
    x = np.concatenate([np.geomspace(1e-300, 40, 3000), np.linspace(0, 30, 3000)])
    x = np.concatenate([-x, x])
    values = {name: value for name, (value, _, _) in oracle.SIGMAS.items()}
    # either side rounds by an ulp or two
    np.testing.assert_allclose(values["tanh"](x), np.tanh(x), rtol=4 * EPS, atol=1e-310)
    np.testing.assert_allclose(
        values["arctan"](x), np.arctan(np.pi / 2 * x) * 2 / np.pi, rtol=6 * EPS, atol=1e-310
    )
    np.testing.assert_allclose(
        values["erf"](x), erf(np.sqrt(np.pi) / 2 * x), rtol=6 * EPS, atol=1e-310
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_blocks_of_the_lower_half_sum_what_the_whole_table_does(sigma, weighted):
    units, lam, slope = 300, -0.7, 3.0
    rng = np.random.default_rng(0)
    z = rng.standard_normal(units)
    weights = rng.random((units, units)) / units
    weights = (weights + weights.T) / 2 if weighted else None
    value, derivative, _ = oracle.SIGMAS[sigma]
    apart = z[None, :] - z[:, None]
    table = 1 / units if weights is None else weights
    pairs = oracle.pairs_row(z, lam, slope, weights, sigma)
    # a sum of 300 terms, in another order
    same = {"rtol": 0, "atol": 300 * EPS}
    np.testing.assert_allclose(pairs.bias, (table * value(slope * apart)).sum(1), **same)
    slopes = table * derivative(slope * apart)
    np.testing.assert_allclose(pairs.by_slope, (slopes * apart).sum(1), **same)
    jacobian = lam * slope * (slopes - np.diag(slopes.sum(1))) + np.eye(units)
    found = oracle.jacobian_row(z, lam, slope, weights, sigma)
    np.testing.assert_allclose(found, jacobian, **same)
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("c", [-400.0, -2.0, 0.9, 0.999])
def test_products_and_a_factorization_solve_the_same_system(c):
    z = np.random.default_rng(0).standard_normal(400)
    g = np.random.default_rng(1).standard_cauchy(400)
    pairs = oracle.pairs_row(z, c / 2, 2.0)
    dense = oracle.jacobian_row(z, c / 2, 2.0)
    # a residual of 1e-13, enlarged by the condition of J, which is 1 + |c| or 1 / (1 - c) at most
    condition = max(1 + abs(c), 1 / (1 - c))
    expected = np.linalg.solve(dense, g)
    error = np.linalg.norm(pairs.solve(g) - expected) / np.linalg.norm(expected)
    assert error <= 3e-13 * condition


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("lam", [-2.0, 0.09])
def test_a_start_changes_how_long_it_takes_and_not_what_is_found(sigma, lam):
    rng = np.random.default_rng(0)
    y = 0.5 * rng.standard_normal(300)
    z = oracle.solve_row(y, lam, 10.0, None, sigma)
    for start in (z + 1e-6 * rng.standard_normal(300), -y, 100 * y, np.zeros(300)):
        other = oracle.solve_row(y, lam, 10.0, None, sigma, start=start)
        # residuals of 1e-13 (1 + |lam|), and |J^-1| <= 10 at 0.9 of the threshold
        np.testing.assert_allclose(other, z, rtol=0, atol=2e-12)


@pytest.mark.parametrize("batch", bank.batches(bank.coupled()), ids=str)
def test_residual_is_the_gradient_of_the_energy_and_the_jacobian_its_derivative(batch):
    problem = batch.problems[1]
    rng = np.random.default_rng(0)
    z, d = rng.standard_normal(24), rng.standard_normal(24)
    d /= np.linalg.norm(d)
    step = 1e-6

    def energy(t):
        return oracle.energy_row(z + t * d, problem.y, *settings(problem))

    def residual(t):
        return oracle.residual_row(z + t * d, problem.y, *settings(problem))

    # Rounding of energies of size 10^2 and a third derivative of at most slope^2 |lam| 24.
    along = (energy(step) - energy(-step)) / (2 * step)
    np.testing.assert_allclose(along, residual(0) @ d, atol=1e-7, rtol=0)
    along = (residual(step) - residual(-step)) / (2 * step)
    np.testing.assert_allclose(
        along, oracle.jacobian_row(z, *settings(problem)) @ d, atol=1e-7, rtol=0
    )


@pytest.mark.parametrize("problem", bank.limits(), ids=str)
def test_oracle_meets_the_closed_forms(problem):
    z = oracle.solve_row(problem.y, *settings(problem))
    assert np.max(np.abs(z - problem.expected)) <= problem.tolerance + 4 * EPS


def test_distance_to_the_isotonic_limit_falls_as_one_over_slope():
    distances = []
    for slope in (1e3, 1e4, 1e5):
        problem = bank.isotonic(slope)
        z = oracle.solve_row(problem.y, *settings(problem))
        distances.append(np.max(np.abs(z - problem.expected)))
    np.testing.assert_allclose(distances[0] / np.array(distances[1:]), [10, 100], rtol=0.05)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_every_answer_of_the_grid_solves_its_equation_and_keeps_the_mean(sigma):
    for problem in bank.grid(sigma, sizes=(3, 200)):
        z = problem.expected
        residual = oracle.residual_row(z, problem.y, *settings(problem))
        # solve_row's own promise, and the rounding of moving the row back from its centre.
        allowed = 1e-13 * (1 + abs(problem.lam)) * (1 + np.abs(problem.y)) + 4 * EPS * np.ptp(z)
        assert np.all(np.abs(residual) <= allowed), problem.name
        assert abs(z.mean() - problem.y.mean()) <= allowed.mean(), problem.name


@pytest.mark.parametrize("batch", bank.batches(bank.coupled()), ids=str)
def test_oracle_agrees_with_scipy(batch):
    for problem in batch.problems:
        # A different algorithm (MINPACK's Powell hybrid), started near: from y it may fail.
        start = problem.expected + 1e-3 * np.cos(np.arange(24))
        found = root(
            oracle.residual_row, start, (problem.y, *settings(problem)), tol=1e-13, method="hybr"
        )
        # hybr stops on the step; its residual times |J^-1| <= 1 / (1 - 0.8) bounds its error.
        error = 5 * np.linalg.norm(found.fun) + 1e-13
        assert error < 1e-10, problem.name
        assert np.max(np.abs(found.x - problem.expected)) <= error, problem.name


@pytest.mark.parametrize("problem", bank.stored(), ids=str)
def test_stored_answers_solve_their_equations(problem):
    residual = oracle.residual_row(problem.expected, problem.y, *settings(problem))
    allowed = 1e-13 * (1 + abs(problem.lam)) * (1 + np.abs(problem.y))
    assert np.all(np.abs(residual) <= allowed)


@pytest.mark.parametrize("batch", bank.batches(bank.coupled()), ids=str)
def test_gradient_agrees_with_finite_differences(batch):
    problem = batch.problems[1]
    y, (lam, slope, weights, sigma) = problem.y, settings(problem)
    g = np.random.default_rng(1).standard_normal(24)
    by_y, by_lam, by_slope = problem.gradient(g)

    def loss(y=y, lam=lam, slope=slope, weights=weights):
        return g @ oracle.solve_row(y, lam, slope, weights, sigma)

    def central(at, step):
        return (at(step) - at(-step)) / (2 * step)

    # Errors: rounding 1e-13 / step, and step^2 times third derivatives that grow with slope and
    # with |J^-1| <= 5; relative to a gradient of size |g| = 5.
    d = np.cos(np.arange(24.0))
    step = 1e-6
    assert central(lambda t: loss(y=y + t * d), step) == pytest.approx(by_y @ d, rel=1e-5, abs=1e-6)
    assert central(lambda t: loss(lam=lam + t), step) == pytest.approx(by_lam, rel=1e-5, abs=1e-6)
    assert central(lambda t: loss(slope=slope + t), 1e-4) == pytest.approx(
        by_slope, rel=1e-5, abs=1e-6
    )
    if weights is not None:
        by_weights = oracle.weight_gradient_row(y, lam, slope, g, weights, sigma)
        change = np.cos(np.add.outer(np.arange(24), np.arange(24)))
        assert central(lambda t: loss(weights=weights + t * change), step) == pytest.approx(
            np.sum(by_weights * change), rel=1e-5, abs=1e-6
        )


@pytest.mark.parametrize("coupling", bank.couplings()[1:4], ids=str)
def test_window_weights_are_symmetric_with_unit_row_sums(coupling):
    weights = coupling.weights
    np.testing.assert_array_equal(weights, weights.T)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=24 * EPS, rtol=0)
    assert weights.min() >= 0


def test_window_weights_by_hand():
    third = 1 / 3
    np.testing.assert_allclose(
        oracle.window_weights((3,), 3),
        [[2 * third, third, 0], [third, third, third], [0, third, 2 * third]],
        atol=EPS,
    )
    side = np.exp(-0.5) / (1 + 2 * np.exp(-0.5))
    np.testing.assert_allclose(
        oracle.window_weights((2,), 3, "gaussian", std=1.0),
        [[1 - side, side], [side, 1 - side]],
        atol=EPS,
    )


def test_above_the_threshold_the_oracle_refuses():
    with pytest.raises(ValueError, match="threshold"):
        oracle.solve_row(np.array([0.0, 1.0, 2.0]), 0.1, 10.0)
