"""What holds for every row, whatever its length: neighbors, bits, residuals, steps, thresholds."""

import numpy as np
import pytest
import torch

from tests import oracle
from tests.engine.triton import asking

LENGTHS = [5, 65, 300]  # one kernel for the first; narrow and wide rows of the others


def some(units: int, std: float = 0.1, count: int = 4, lam=-0.2, slope=10.0) -> asking.Rows:
    y = std * np.random.default_rng(units).standard_normal((count, units))
    return asking.rows([f"row {k}" for k in range(count)], y, lam, slope)


@pytest.mark.parametrize("std", [0.1, 2.0])
@pytest.mark.parametrize("units", LENGTHS)
def test_a_row_that_is_not_finite_leaves_its_neighbors_alone(units, std):
    asked = some(units, std, count=5)
    alone = asking.solve(asked)
    asked.y[1, units // 2], asked.y[3, 0] = np.nan, np.inf
    found = asking.solve(asked)
    assert np.isnan(found.z[[1, 3]]).all()
    assert np.isinf(found.residual[[1, 3]]).all()
    assert not found.solved[[1, 3]].any()
    kept = [0, 2, 4]
    np.testing.assert_array_equal(found.z[kept], alone.z[kept])
    assert found.solved[kept].all()

    g = asking.gradient(asked)
    z = np.where(np.isfinite(found.z), found.z, 0).astype(np.float64)
    right = asking.adjoint(z, g, asked)
    g[2, 1] = -np.inf
    v, error, dot = asking.adjoint(z, g, asked)
    assert np.isnan(v[2]).all()
    assert np.isnan(dot[2])
    assert np.isinf(error[2])
    others = [0, 1, 3, 4]
    np.testing.assert_array_equal(v[others], right[0][others])


@pytest.mark.parametrize("units", LENGTHS)
def test_a_strength_that_is_not_finite_spoils_its_row_only(units):
    asked = some(units)
    asked.lam[2] = np.nan
    found = asking.solve(asked)
    assert np.isnan(found.z[2]).all()
    assert found.solved.tolist() == [True, True, False, True]


@pytest.mark.parametrize("std", [0.1, 2.0])
@pytest.mark.parametrize("units", LENGTHS)
def test_rows_without_strength_come_back_bit_by_bit(units, std):
    asked = some(units, std, lam=[0, -0.2, 0, 0.05])
    found, g = asking.solve(asked), asking.gradient(asked)
    np.testing.assert_array_equal(found.z[[0, 2]], asked.y[[0, 2]])
    assert found.residual[[0, 2]].tolist() == [0, 0]
    v, _, dot = asking.adjoint(found.z.astype(np.float64), g, asked)
    np.testing.assert_array_equal(v[[0, 2]], g[[0, 2]])
    # dL/dlam is wanted at lam = 0 too
    _, exact_dot, size = asking.exact_adjoint(found.z.astype(np.float64), g, asked)
    assert (np.abs(dot - exact_dot) <= 1e-5 * size).all()


@pytest.mark.parametrize("std", [0.1, 2.0])
@pytest.mark.parametrize("units", [5, 100])
def test_a_row_does_not_depend_on_its_batch(units, std):
    asked = some(units, std, lam=[-1, -0.2, 0.05, 0.09], slope=[1, 10, 10, 10])
    g = asking.gradient(asked)
    together = asking.solve(asked)
    v, _, _ = asking.adjoint(together.z.astype(np.float64), g, asked)
    for k in (1, 3):
        one = asking.Rows([], *(x[k : k + 1] for x in asked[1:4]))
        alone = asking.solve(one)
        # numpy adds up rows of a batch in another order than a row alone
        assert np.abs(alone.z[0] - together.z[k]).max() <= 1e-6
        w, _, _ = asking.adjoint(together.z[k : k + 1].astype(np.float64), g[k : k + 1], one)
        assert np.abs(w[0] - v[k]).max() <= 1e-5 * np.abs(v[k]).max()


@pytest.mark.parametrize("units", LENGTHS)
def test_the_same_bits_every_time(units):
    asked = some(units, std=0.5)
    np.testing.assert_array_equal(asking.solve(asked).z, asking.solve(asked).z)


@pytest.mark.parametrize("std", [0.1, 2.0])
@pytest.mark.parametrize("units", LENGTHS)
def test_the_residual_is_that_of_the_worst_unit(units, std):
    asked = some(units, std, lam=[-0.5, -0.1, 0.05, 0.09])
    found = asking.solve(asked)
    for k, (lam, slope) in enumerate(zip(asked.lam, asked.slope, strict=True)):
        z, y = found.z[k].astype(np.float64), asked.y[k].astype(np.float64)
        true = slope * np.abs(oracle.residual_row(z, y, float(lam), float(slope))).max()
        # z is rounded once more on its way out, and sums of float32 numbers are to 1e-6
        slack = np.abs(lam * slope) * 1e-6 + 2e-7 * slope * np.abs(y).max()
        stiff = 1 + abs(lam * slope)
        assert true <= found.residual[k] + stiff * slack


@pytest.mark.parametrize("units", [64, 65])
def test_above_the_threshold_nothing_is_called_solved(units):
    asked = some(units, lam=0.2)
    found = asking.solve(asked)
    assert not found.solved.any()
    assert np.isfinite(found.residual).all()
    assert np.isfinite(found.z).all()


@pytest.mark.parametrize("units", LENGTHS)
def test_rows_of_one_value_rest(units):
    asked = asking.rows(["equal"], np.full((1, units), 0.7), -2.0, 10.0)
    found = asking.solve(asked)
    np.testing.assert_array_equal(found.z, asked.y)
    assert found.solved.all()


@pytest.mark.parametrize("units", [3, 65])
def test_rows_at_the_end_of_the_numbers_are_not_called_solved(units):
    y = np.linspace(-3e38, 3e38, units, dtype=np.float32)[None]
    found = asking.solve(asking.rows(["huge"], y, -0.2, 10.0))
    assert not found.solved.any()
    assert np.isfinite(found.residual).all()


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("sigma", ["tanh", "arctan", "erf"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_all_pairs(sigma, order, weighted):
    from ibnn.engine.triton import launch
    from ibnn.sigma import resolve

    generator = torch.Generator().manual_seed(order)
    z = 3 * torch.randn(3, 150, generator=generator)
    a = torch.randn(3, 150, generator=generator) if weighted else None
    found = launch.pair_sum(z, a, order, sigma)
    pairs = z.double()[:, :, None] - z.double()[:, None, :]
    terms = resolve(sigma).derivative(pairs, order)
    weights = torch.ones_like(z) if a is None else a
    expected = (terms * weights.double()[:, :, None]).mean(1)
    # third derivatives are up to 2.5, and sums of 150 rounded terms
    assert (found - expected).abs().max() <= 3e-6


def test_sums_of_a_row_that_is_not_finite():
    from ibnn.engine.triton import launch

    z = torch.linspace(-1, 1, 40).repeat(3, 1)
    z[1, 3] = torch.inf
    found = launch.pair_sum(z, None, 0, "tanh")
    assert found[1].isnan().all()
    assert found[[0, 2]].isfinite().all()
