"""Above the threshold: which minimum is found, that it is one, and whether another one is near."""

import numpy as np
import pytest
import torch

import ibnn
from tests.pretend_device import CUDA, on_host, pretended

SLOPE, T = 10.0, 0.1
TIMES = (1.5, 3.0)


def rows(units: int, std: float) -> torch.Tensor:
    return std * torch.randn(2, units, generator=torch.Generator().manual_seed(units))


def bias_of(z: np.ndarray) -> np.ndarray:
    return np.tanh(SLOPE * (z[None, :] - z[:, None])).mean(1)


def jacobian_of(z: np.ndarray, lam: float) -> np.ndarray:
    """J written out."""
    pairs = lam * SLOPE / np.cosh(SLOPE * (z[None, :] - z[:, None])) ** 2 / len(z)
    return np.diag(1 - pairs.sum(1)) + pairs


def reached_from(y: np.ndarray, lam: float) -> tuple[np.ndarray, bool]:
    """Where z <- y - lam B(z) leads, and whether no step of it climbed."""

    def energy(z):
        pairs = np.log(np.cosh(SLOPE * (z[None, :] - z[:, None]))) / SLOPE
        return ((z - y) ** 2).sum() / 2 - lam / 2 * pairs.mean(1).sum()

    z, before, falls = y, energy(y), True
    for _ in range(3000):
        z = y - lam * bias_of(z)
        now = energy(z)
        falls &= now <= before + 1e-12
        before = now
    return z, falls


@pytest.mark.parametrize("engine", ["native", "portable"])
@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("std", [0.1, 1.0])
def test_descent_from_y_decides_which_minimum_is_found(std, times, engine):
    y = rows(60, std)
    lam = times * T
    solution = ibnn.solve(y, lam, SLOPE, engine=engine)
    assert solution.converged.all()
    assert solution.unique.all()
    for row, z in zip(y.double().numpy(), solution.value.double().numpy(), strict=True):
        expected, falls = reached_from(row, lam)
        assert falls
        np.testing.assert_allclose(z, expected, rtol=0, atol=1e-5 * max(1, np.abs(row).max()))
        assert np.linalg.eigvalsh(jacobian_of(z, lam)).min() > 0


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(("dtype", "promised"), [(torch.float32, 1e-4), (torch.float64, 1e-8)])
def test_gradients_are_those_of_the_minimum(times, dtype, promised):
    y = rows(60, 0.2).to(dtype).requires_grad_()
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=dtype)
    z = ibnn.implicit_bias(y, times * T, SLOPE)
    (found,) = torch.autograd.grad(z, y, g)
    for row, given, v in zip(z.detach().double(), g.double(), found.double(), strict=True):
        expected = np.linalg.solve(jacobian_of(row.numpy(), times * T), given.numpy())
        assert np.linalg.norm(v.numpy() - expected) <= promised * np.linalg.norm(expected)


@pytest.mark.parametrize("engine", ["native", "portable"])
@pytest.mark.parametrize("sigma", ["tanh", "erf", "arctan", "hardtanh"])
@pytest.mark.parametrize(("dtype", "std"), [(torch.float32, 1e-7), (torch.float64, 1e-8)])
def test_a_row_that_starts_next_to_the_saddle_leaves_it(dtype, std, sigma, engine, generator):
    y = std * torch.randn(2, 16, dtype=dtype, generator=generator)
    solution = ibnn.solve(y, 0.3, SLOPE, sigma=sigma, engine=engine)
    z = solution.value.double()
    assert solution.converged.all()
    assert ibnn.residual(z, y.double(), 0.3, SLOPE, sigma=sigma).abs().max() < 5e-7
    assert (z.amax(-1) - z.amin(-1) > 0.3).all()
    # a first step as small as this one said that the row had settled, at the saddle
    assert (ibnn.energy(z, y, 0.3, SLOPE, sigma=sigma) < -0.01).all()


def test_rows_on_both_sides_of_the_threshold_leave_each_other_alone():
    y, lam = rows(60, 0.2), torch.tensor([0.5 * T, 2 * T])
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))

    both = y.clone().requires_grad_()
    z = ibnn.implicit_bias(both.unsqueeze(0), lam, SLOPE).squeeze(0)
    (found,) = torch.autograd.grad(z, both, g)
    for k in range(2):
        alone = y[k].clone().requires_grad_()
        (expected,) = torch.autograd.grad(ibnn.implicit_bias(alone, lam[k], SLOPE), alone, g[k])
        assert torch.equal(found[k], expected)


def test_the_record_says_where_another_solution_is_near():
    """Equal units are a solution, but one that any push splits: J is indefinite there."""
    y = torch.cat([torch.zeros(1, 20), rows(20, 0.3)[:1]])
    solution = ibnn.solve(y, 2 * T, SLOPE)
    assert solution.unique.tolist() == [False, True]
    assert torch.equal(solution.value[0], y[0])
    assert np.linalg.eigvalsh(jacobian_of(np.zeros(20), 2 * T)).min() < 0
    assert ibnn.solve(y, 0.9 * T, SLOPE).unique.all()


def test_unique_is_claimed_only_where_j_is_positive_definite():
    """Rows on their way apart, where some of J's eigenvalues change sign."""
    for std in np.geomspace(1e-3, 1, 8):
        for times in (1.05, 1.5, 3.0):
            y = rows(12, float(std)).double()
            solution = ibnn.solve(y, times * T, SLOPE)
            for z, unique in zip(solution.value.numpy(), solution.unique, strict=True):
                least = np.linalg.eigvalsh(jacobian_of(z, times * T)).min()
                assert least > 0 or not unique


WEIGHTED = [ibnn.Uniform(-1), ibnn.Window(3), ibnn.Dense(units=20)]


@pytest.mark.parametrize("coupling", WEIGHTED, ids=str)
def test_what_is_unique_at_every_z_is_so_inside_vmap_and_on_a_device(coupling):
    y = rows(20, 0.3)

    def unique(y, lam):
        how = {"coupling": coupling, "engine": "portable", "on_failure": "ignore"}
        return ibnn.solve(y, lam, SLOPE, **how).unique

    for times, expected in ((-3.0, True), (0.0, True), (0.5, True), (4.0, False)):
        lam = times * T
        assert unique(y, lam).all() or not expected
        inside = torch.vmap(unique, (0, None))(y, torch.tensor(lam))
        assert inside.tolist() == [expected] * 2
        with pretended():
            assert on_host(unique(y.to(CUDA), lam)).tolist() == [expected] * 2


class Steep(ibnn.Sigma):
    name, slope_bound = "steep", 4.0

    def value(self, x):
        return torch.tanh(4 * x)

    def primitive(self, x):
        return torch.log(torch.cosh(4 * x)) / 4


@pytest.mark.parametrize("solver", ["newton", "gradient", "anderson"])
@pytest.mark.parametrize("times", [-8.0, 0.5, 0.99])
def test_a_sigma_steeper_than_1_is_solved_as_well_as_tanh_of_that_slope(times, solver, generator):
    y = 0.05 * torch.randn(4, 30, generator=generator, dtype=torch.float64)
    lam = times * ibnn.uniqueness_threshold(SLOPE, sigma=Steep())
    found = ibnn.solve(y, lam, SLOPE, sigma=Steep(), solver=solver, max_steps=5000)
    assert found.converged.all()
    assert (found.value - ibnn.solve(y, lam, 4 * SLOPE).value).abs().max() <= 2e-10


def test_a_sigma_steeper_than_1_has_a_lower_threshold():
    y = torch.zeros(1, 80)
    threshold = ibnn.uniqueness_threshold(SLOPE, sigma=Steep())
    # at equal units J is 1 - lam / threshold in every direction but that of the mean
    assert ibnn.solve(y, 0.9 * threshold, SLOPE, sigma=Steep()).unique.all()
    assert not ibnn.solve(y, 1.8 * threshold, SLOPE, sigma=Steep()).unique.any()


def test_rows_of_no_units_have_one_solution():
    with pytest.warns(ibnn.ThresholdWarning):
        layer = ibnn.ImplicitBias(0.5, learn_lam=False)
    assert layer(torch.zeros(3, 0)).shape == (3, 0)
    assert layer.last_solve.unique == 1
    assert ibnn.solve(torch.zeros(3, 0), 0.5).unique.all()


def test_an_unbounded_layer_trains_and_tells():
    torch.manual_seed(0)
    with pytest.warns(ibnn.ThresholdWarning):
        layer = ibnn.Linear(8, 40, lam=2 * T, slope=SLOPE, bounded=False)
    layer(torch.randn(16, 8)).square().mean().backward()
    assert layer.lam.grad is not None
    assert layer.lam.grad.isfinite()
    assert layer.last_solve.converged == 1
    assert layer.last_solve.unique == 1
