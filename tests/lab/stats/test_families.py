"""Families of comparisons: Holm's correction, and the four ways one can be decided."""

import pytest
from scipy.stats import ttest_rel

from ibnn.lab.stats import Paired, paired
from ibnn.lab.stats.families import holm, judge, p_value


def test_p_is_that_of_the_paired_t_test():
    first = {0: 0.81, 1: 0.84, 2: 0.79, 3: 0.86, 4: 0.80}
    second = {0: 0.80, 1: 0.81, 2: 0.80, 3: 0.83, 4: 0.79}
    expected = ttest_rel(list(first.values()), list(second.values())).pvalue
    assert p_value(paired(first, second)) == pytest.approx(expected, rel=1e-9)


def test_holm_stops_where_a_hypothesis_is_kept():
    # by hand: 0.01 * 4, 0.02 * 3, then 0.03 * 2 is no more than before, 0.5 * 1
    found = holm({"a": 0.02, "b": 0.01, "c": 0.03, "d": 0.5})
    assert found == pytest.approx({"b": 0.04, "a": 0.06, "c": 0.06, "d": 0.5})


def test_a_family_is_harder_to_decide_than_one_comparison():
    # p = 0.02 alone: half-width of the interval at which the t statistic is that of p = 0.02
    one = Paired(0.01, 0.0018, 0.0182, 10)
    assert 0.01 < p_value(one) < 0.05
    assert judge({"a": one})["a"].decision == "better"
    crowd = {"a": one, **{name: Paired(0.0, -0.1, 0.1, 10) for name in "bcdef"}}
    assert judge(crowd)["a"].decision == "not decided"
    # comparisons that are still to come count as well
    assert judge({"a": one, **dict.fromkeys("bcdef")})["a"].decision == "not decided"


@pytest.mark.parametrize(
    ("difference", "outcome"),
    [
        (Paired(0.02, 0.01, 0.03, 10), "better"),
        (Paired(-0.02, -0.03, -0.01, 10), "worse"),
        (Paired(0.0005, -0.001, 0.002, 10), "equivalent"),
        (Paired(0.002, -0.001, 0.005, 10), "not decided"),
        (Paired(0.02, 0.01, 0.03, 4), "not decided"),  # too few pairs
        (Paired(0.0005, -0.001, 0.002, 4), "not decided"),
        (None, "not decided"),
    ],
)
def test_the_four_outcomes(difference, outcome):
    assert judge({"a": difference})["a"].decision == outcome


def test_equivalence_is_only_asked_for_where_it_is_defined():
    close = {"a": Paired(0.0005, -0.001, 0.002, 10)}
    assert (judge(close)["a"].decision, judge(close)["a"].answer) == ("equivalent", "no")
    assert judge(close, equivalent=0)["a"].answer == "not decided"
