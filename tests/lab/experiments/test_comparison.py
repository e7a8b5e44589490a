"""What is read off two families of curves, against cases worked out by hand."""

import math

import pytest

from ibnn.lab.experiments.accuracy.comparison import Comparison

XS = [10.0, 20.0, 30.0]
STANDARD = {0: [0.2, 0.4, 0.6], 1: [0.1, 0.5, 0.6], 2: [0.3, 0.3, 0.6]}
IMPLICIT = {0: [0.4, 0.6, 0.8], 1: [0.2, 0.6, 0.7], 2: [0.5, 0.5, 0.55]}


def test_the_match_is_read_where_the_median_reaches_the_standard_best():
    match = Comparison(XS, STANDARD, IMPLICIT).match()
    # medians: standard 0.2, 0.4, 0.6; implicit 0.4, 0.6, 0.7
    assert match.level == 0.6
    assert match.standard == 30.0
    assert match.implicit == 20.0
    # single networks: 20, 20, never
    assert match.seeds.median == 20.0
    assert match.seeds.count == 2
    assert match.never == 1
    assert match.medians(lambda x: f"at {x:g}") == (
        "Median curves: the standard one has its best, 60.0 %, at 30; the implicit one reaches "
        "that at 20."
    )
    assert match.singles(lambda x: f"{x:g}") == (
        "Single implicit networks: median 20, 90 % band 20 to 20; 1 of 3 never."
    )


def test_a_level_nobody_reaches_is_said_to_be_never_reached():
    match = Comparison(XS, STANDARD, {0: [0.1, 0.1, 0.1]}).match()
    assert match.implicit is None
    assert match.medians(str).endswith("reaches that never.")
    assert match.singles(str) == "Of 1 single implicit networks none reaches it."


def test_savings_are_paired_and_fair():
    found = Comparison(XS, STANDARD, IMPLICIT).saving()
    # highest accuracy both twins reach, x of the standard one minus x of the implicit one:
    # seed 0: 0.6 at 30 and 20; seed 1: 0.6 at 30 and 20;
    # seed 2: 0.55 at 20 + 10 * 0.25 / 0.3 = 28.333 and 30
    assert found.mean == pytest.approx((10 + 10 + (28 + 1 / 3 - 30)) / 3)
    swapped = Comparison(XS, IMPLICIT, STANDARD).saving()
    assert swapped.mean == pytest.approx(-found.mean)


def test_differences_use_only_seeds_that_have_both():
    gap = Comparison(XS, STANDARD, {0: [0.3, 0.4, 0.7], 1: [0.2, math.nan, 0.8], 7: [1, 1, 1]})
    first = gap.difference(0)
    assert first.count == 2
    assert first.mean == pytest.approx(0.1)
    assert gap.difference(1) is None  # one pair is not enough
    assert gap.mean_difference() is None  # one curve has a gap, the other seed is alone


def test_nothing_is_compared_when_one_neuron_is_missing():
    assert Comparison(XS, STANDARD, {}).match() is None
    assert Comparison(XS, STANDARD, {}).mean_difference() is None
