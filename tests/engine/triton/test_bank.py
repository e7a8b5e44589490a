"""The bank of problems, both passes, against the oracle."""

import numpy as np
import pytest

from tests.engine.triton import asking

# promised of z on the bank, relative to max(1, |y_i|), and of gradients, relative to their size
Z, V = 1e-5, 1e-4


def check(asked: asking.Rows) -> None:
    expected, g = asking.exact(asked), asking.gradient(asked)
    found = asking.solve(asked)
    unsolved = [asked.names[k] for k in np.nonzero(~found.solved)[0]]
    assert not unsolved
    assert not asking.worst(asked.names, asking.error_of_z(found, expected, asked), Z)
    v, error, dot = asking.adjoint(expected, g, asked)
    exact_v, exact_dot, size = asking.exact_adjoint(expected, g, asked)
    assert not asking.worst(asked.names, asking.error_of_v(v, exact_v), V)
    assert not asking.worst(asked.names, np.abs(dot - exact_dot) / np.maximum(size, 1e-30), V)
    assert error.max() <= V  # nothing that is right is reported


@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.parametrize("sigma", ["tanh", "arctan", "erf"])
def test_the_bank_of_very_short_rows(units, sigma):
    check(asking.of_bank(units, sigma))


# every seventh row of the grid: all kinds of rows, slopes and lam come up
def test_a_slice_of_the_bank_of_200_units():
    check(asking.of_bank(200).every(7))


@pytest.mark.slow
def test_the_bank_of_200_units():
    check(asking.of_bank(200))


@pytest.mark.parametrize("units", [40, 256])
@pytest.mark.parametrize("std", [0.03, 0.1, 0.3, 1.0])
def test_normal_rows_are_right_to_1e_6(units, std):
    lams = np.array([-1, -0.2, -0.05, 0.03, 0.08, 0.095], dtype=np.float32)
    y = std * np.random.default_rng(units).standard_normal((len(lams), units))
    asked = asking.rows([f"lam {lam:.3f}" for lam in lams], y, lams, 10.0)
    expected = asking.exact(asked)
    found = asking.solve(asked)
    assert found.solved.all()
    assert not asking.worst(asked.names, asking.error_of_z(found, expected, asked), 1e-6)
    g = asking.gradient(asked)
    v, _, _ = asking.adjoint(expected, g, asked)
    exact_v, _, _ = asking.exact_adjoint(expected, g, asked)
    assert not asking.worst(asked.names, asking.error_of_v(v, exact_v), 1e-5)
