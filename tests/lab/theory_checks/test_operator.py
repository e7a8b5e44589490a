"""J and K_inf as operators: against the oracle's matrices, and within memory O(units)."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import ibnn
from ibnn.lab.theory_checks.numerics.lanczos import extreme_eigenvalues, groups
from ibnn.lab.theory_checks.numerics.operator import BiasOperator
from tests import bank, library, oracle

UNITS = 24


def rows(seed=0, count=3, std=0.2, units=UNITS):
    return std * np.random.default_rng(seed).standard_normal((count, units))


def at(plain, z, lam, sigma="tanh"):
    """The operator at rows z, in the shape the coupling of the bank wants."""
    maps = torch.from_numpy(z).reshape(len(z), *(plain.shape or (UNITS,)))
    return BiasOperator(maps, lam, 10.0, coupling=library.coupling(plain), sigma=sigma)


@pytest.mark.parametrize("sigma", list(oracle.SIGMAS))
@pytest.mark.parametrize("plain", bank.couplings(), ids=str)
@pytest.mark.parametrize("share", [-3.0, 0.4])
def test_products_and_solves_are_those_of_the_matrices(plain, sigma, share):
    lam = share * min(0.1, plain.threshold(10.0))
    z, v = rows(), rows(1)
    operator = at(plain, z, lam, sigma)
    images, backs = operator.jacobian(torch.from_numpy(v)), operator.inverse(torch.from_numpy(v))
    for row in range(len(z)):
        jacobian = oracle.jacobian_row(z[row], lam, 10.0, plain.weights, sigma)
        # the fast sums promise 1e-10; window taps are float32 numbers made float64
        tolerance = 1e-7 if plain.kind == "window" else 1e-9
        np.testing.assert_allclose(images[row], jacobian @ v[row], atol=tolerance)
        exact = np.linalg.solve(jacobian, v[row])
        np.testing.assert_allclose(backs[row], exact, atol=10 * tolerance)


def test_the_matrix_is_the_derivative_of_the_layer():
    y = torch.from_numpy(rows(count=1))[0]
    z = ibnn.implicit_bias(y, -0.3)
    derivative = torch.func.jacrev(lambda y: ibnn.implicit_bias(y, -0.3))(y)
    torch.testing.assert_close(
        torch.linalg.inv(BiasOperator(z, -0.3).dense_jacobian())[0], derivative, atol=1e-8, rtol=0
    )


def test_the_spectrum_is_that_of_the_matrix():
    z = rows()
    spectrum = BiasOperator(torch.from_numpy(z), 0.08).spectrum()
    for row in range(len(z)):
        exact = 1 / np.linalg.eigvalsh(oracle.jacobian_row(z[row], 0.08, 10.0))[::-1]
        np.testing.assert_allclose(spectrum[row].numpy(), exact, rtol=1e-8)


def test_rows_of_a_convolution_have_their_own_lam_and_keep_their_places():
    y = torch.randn(2, 3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    lam = torch.tensor([-0.5, 0.0, 0.08], dtype=torch.float64)
    operator = BiasOperator(y, lam, coupling=ibnn.Uniform((-2, -1)))
    assert (operator.rows, operator.units, operator.unit_shape) == (6, 20, (4, 5))
    v = operator.restore(operator.inverse(operator.flatten(y)))
    torch.testing.assert_close(v[:, 1], y[:, 1])  # lam = 0 leaves everything as it was
    one = BiasOperator(y[1, 2].reshape(-1), 0.08)
    torch.testing.assert_close(v[1, 2].reshape(1, -1), one.inverse(y[1, 2].reshape(1, -1)))


def test_long_rows_are_refused_as_matrices():
    with pytest.raises(ValueError, match="2000 units, a matrix is only made up to 1024"):
        BiasOperator(torch.zeros(1, 2000), -0.1).dense_jacobian()


@pytest.mark.parametrize("without_mean", [False, True])
@pytest.mark.parametrize("plain", bank.couplings(), ids=str)
def test_lanczos_finds_both_ends(plain, without_mean):
    z, lam = rows(count=4), 0.4 * plain.threshold(10.0)
    operator = at(plain, z, lam)
    found = extreme_eigenvalues(
        operator.jacobian,
        operator.rows,
        operator.units,
        generator=torch.Generator().manual_seed(0),
        without_mean=without_mean,
    )
    for row in range(len(z)):
        exact = np.linalg.eigvalsh(oracle.jacobian_row(z[row], lam, 10.0, plain.weights))
        if without_mean:  # the eigenvalue 1 of (1, ..., 1) is the largest for lam > 0
            exact = exact[:-1]
        allowed = float(found.error[row]) + 1e-7
        assert abs(float(found.low[row]) - exact[0]) <= allowed
        assert abs(float(found.high[row]) - exact[-1]) <= allowed


def test_lanczos_knows_how_far_it_is_off_on_a_long_row():
    # the ends of such a spectrum are crowded: 80 steps do not settle them to 1e-6
    z = rows(count=1, units=600, std=0.3)
    operator = BiasOperator(torch.from_numpy(z), 0.09)
    found = extreme_eigenvalues(
        operator.jacobian, 1, 600, generator=torch.Generator().manual_seed(0), without_mean=True
    )
    exact = np.linalg.eigvalsh(oracle.jacobian_row(z[0], 0.09, 10.0))
    assert exact[0] <= float(found.low[0]) <= exact[0] + float(found.error[0])
    assert exact[-2] - float(found.error[0]) <= float(found.high[0]) <= exact[-2] + 1e-12
    assert float(found.error[0]) < 1e-2


def test_lanczos_stops_where_a_row_has_seen_everything():
    # J of equal units has two eigenvalues: Lanczos is done after two steps, in every row alike
    operator = BiasOperator(torch.zeros(2, 50, dtype=torch.float64), -0.1)
    found = extreme_eigenvalues(
        operator.jacobian, 2, 50, generator=torch.Generator().manual_seed(0)
    )
    assert found.steps <= 5
    torch.testing.assert_close(found.low, torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(found.high, torch.full((2,), 2.0, dtype=torch.float64))


def test_groups_cover_every_row_once():
    cut = groups(1000, 16_384)
    assert [i for part in cut for i in range(part.start, part.stop)] == list(range(1000))
    assert len(cut) > 1


MEASURE = """
import resource, torch, ibnn
from ibnn.lab.theory_checks.numerics.operator import BiasOperator
from ibnn.lab.theory_checks.solutions.uniqueness import smallest_eigenvalue

def work(units):
    y = torch.randn(1, units, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = ibnn.implicit_bias(y, 0.09)
    operator = BiasOperator(z, 0.09)
    operator.inverse(y)
    smallest_eigenvalue(operator, torch.Generator().manual_seed(0))

work(64)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
work(16_384)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_sixteen_thousand_units_need_memory_of_the_order_of_units():
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True
    )
    kilobytes = int(ran.stdout)
    # 80 Lanczos vectors are 10 MB, the engine's own buffers about as much again; D x D is 2 GB
    assert kilobytes < 100_000
