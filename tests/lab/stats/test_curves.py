"""Bands, running means and crossings against numbers worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibnn.lab.stats import (
    band,
    median_curve,
    reaches,
    running_mean,
)
from ibnn.lab.stats.curves import needed_for_common_best

accuracies = st.lists(st.floats(0, 1), min_size=2, max_size=12)


def test_a_band_of_ninety_per_cent_leaves_five_out_at_each_end():
    # quantiles of 0..100 by linear interpolation are the numbers themselves
    found = band([float(value) for value in range(101)], 0.9)
    assert (found.low, found.median, found.high) == pytest.approx((5.0, 50.0, 95.0))
    assert found.count == 101


def test_a_band_of_everything_is_the_range():
    found = band([3.0, 1.0, 2.0], 1.0)
    assert (found.low, found.median, found.high) == (1.0, 2.0, 3.0)


def test_a_band_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one instance"):
        band([])


def test_a_running_mean_uses_what_there_is_at_the_ends():
    assert running_mean([1.0, 2.0, 6.0, 3.0], 3) == [1.5, 3.0, 11 / 3, 4.5]
    assert running_mean([1.0, 2.0], 1) == [1.0, 2.0]
    assert running_mean([5.0], 3) == [5.0]


def test_a_level_is_reached_between_two_points():
    # from 0.5 at 20 % to 0.7 at 40 %: 0.6 half way
    assert reaches([20, 40, 60], [0.5, 0.7, 0.9], 0.6) == pytest.approx(30)


def test_the_first_of_several_crossings_counts():
    assert reaches([0, 1, 2, 3], [0.0, 1.0, 0.0, 1.0], 0.5) == 0.5


def test_a_level_below_the_first_point_is_reached_there_and_one_above_all_never():
    assert reaches([5, 10], [0.4, 0.8], 0.3) == 5.0
    assert reaches([5, 10], [0.4, 0.8], 0.9) is None


@given(accuracies, st.data())
def test_the_common_level_favors_nobody(first, draw):
    second = draw.draw(st.lists(st.floats(0, 1), min_size=len(first), max_size=len(first)))
    xs = list(range(len(first)))
    one, other = needed_for_common_best(xs, first, second)
    assert needed_for_common_best(xs, second, first) == (other, one)
    assert (
        needed_for_common_best(xs, first, first)[0] == needed_for_common_best(xs, first, first)[1]
    )


def test_a_median_curve_is_the_median_at_each_place():
    assert median_curve({3: [1.0, 9.0], 1: [2.0, 8.0], 2: [5.0, 1.0]}) == [2.0, 8.0]
