"""How convex a region is, and how much of its edge is curved, on shapes with known answers."""

import numpy as np
import pytest

from ibnn.lab.stats.region import EDGE, curved_fraction, solidity

AXIS = np.linspace(-EDGE, EDGE, 81)
X, Y = np.meshgrid(AXIS, AXIS)


def test_a_convex_region_has_solidity_one():
    assert solidity(X**2 + Y**2 < 0.5) == pytest.approx(1.0)
    assert solidity(X + Y > 0.1) == pytest.approx(1.0)


def test_an_l_has_the_solidity_of_its_area_over_its_hull():
    # a square of side 1.2 without its upper right quarter: 3/4 of it, in a hull of 7/8
    shape = (abs(X) < 0.6) & (abs(Y) < 0.6) & ~((X > 0) & (Y > 0))
    assert solidity(shape) == pytest.approx(6 / 7, abs=0.03)  # cells at the edges: 1/40


def test_no_region_has_no_solidity():
    assert solidity(np.zeros((9, 9), dtype=bool)) is None
    assert solidity(np.eye(9, dtype=bool)) is None


def test_a_circle_bends_everywhere_a_line_nowhere_a_square_at_its_corners():
    assert curved_fraction(0.6**2 - X**2 - Y**2) == pytest.approx(1.0, abs=0.05)
    assert curved_fraction(X + 0.3 * Y) == 0.0
    square = curved_fraction(0.6 - np.maximum(abs(X), abs(Y)))
    assert square is not None
    assert square == pytest.approx(4 / 96, abs=0.06)  # 4.8 long, a point every 0.05
    assert curved_fraction(np.ones_like(X)) is None
