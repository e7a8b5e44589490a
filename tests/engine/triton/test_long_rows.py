"""Rows of 784 units and more, the nodes that only long rows get among them."""

import numpy as np
import pytest
import torch

from tests import bank
from tests.engine.triton import asking

pytestmark = pytest.mark.slow


def gap(z: np.ndarray, v: np.ndarray, g: np.ndarray, strength: float) -> float:
    """The largest |J v - g|, relative to the largest |g|, in float64 and blocks of 500 units."""
    slopes, image = np.empty_like(v), np.empty_like(v)
    for start in range(0, len(z), 500):
        block = slice(start, start + 500)
        kernel = 1 - np.tanh(z[block, None] - z[None, :]) ** 2
        slopes[block], image[block] = kernel.mean(1), kernel @ v / len(z)
    return np.abs((1 - strength * slopes) * v + strength * image - g).max() / np.abs(g).max()


@pytest.mark.parametrize("units", [784, 5000])
def test_the_stored_answers(units):
    problems = [p for p in bank.stored() if len(p.y) == units]
    asked = asking.rows(
        [str(p) for p in problems],
        [p.y for p in problems],
        [p.lam for p in problems],
        [p.slope for p in problems],
    )
    expected = np.stack([p.expected for p in problems])
    found = asking.solve(asked)
    half = np.ptp(asked.y, axis=1) * asked.slope / 2
    # beyond 4096 units there is no sorting, and 1024 nodes reach 100 widths of tanh
    within = (half < 90) | (units <= 4096)
    np.testing.assert_array_equal(found.solved, within)
    assert not asking.worst(
        asked.names, np.where(within, asking.error_of_z(found, expected, asked), 0), 1e-5
    )
    g = asking.gradient(asked)
    v, error, _ = asking.adjoint(expected, g, asked)
    assert ((error <= 1e-4) == within).all()
    z = asking.scale(expected, asked).astype(np.float64)
    for k in np.nonzero(within)[0]:
        left = gap(z[k], v[k].astype(np.float64), g[k].astype(np.float64), asked.strength[k])
        assert left <= 2e-5, asked.names[k]


@pytest.mark.parametrize("units", [1024, 2048, 4096, 6000])
@pytest.mark.parametrize("std", [0.1, 0.3, 1.0])
def test_rows_of_a_convolution(units, std):
    """z by its residual, which is an error of at most residual / (1 - c); v by J v - g."""
    lams = np.array([-0.2, 0.08], dtype=np.float32)
    y = std * np.random.default_rng(units).standard_normal((2, units))
    asked = asking.rows(["-0.2", "0.08"], y, lams, 10.0)
    found = asking.solve(asked)
    assert found.solved.all()
    g = asking.gradient(asked)
    v, _, _ = asking.adjoint(found.z.astype(np.float64), g, asked)
    z = asking.scale(found.z.astype(np.float64), asked).astype(np.float64)
    for k in range(2):
        true = np.empty(units)
        for start in range(0, units, 500):
            block = slice(start, start + 500)
            true[block] = np.tanh(z[k][None, :] - z[k][block, None]).mean(1)
        residual = found.z[k] - asked.y[k] + lams[k] * true
        assert np.abs(residual).max() <= 1e-6 * min(1, 1 - 10 * lams[k]) * max(1, np.abs(y).max())
        left = gap(z[k], v[k].astype(np.float64), g[k].astype(np.float64), asked.strength[k])
        assert left <= 1e-5


def test_sums_of_a_long_row():
    from ibnn.engine.triton import launch

    z = torch.randn(1, 3000, generator=torch.Generator().manual_seed(0))
    found = launch.pair_sum(z, z, 1, "tanh")
    pairs = z.double()[0, :, None] - z.double()[0, None, :]
    expected = (z.double()[0, :, None] * (1 - torch.tanh(pairs) ** 2)).mean(0)
    assert (found[0] - expected).abs().max() <= 2e-6
