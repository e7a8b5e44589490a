"""Statistics over seeds, against cases computed by hand."""

import pytest

from ibnn.lab.stats import Paired, paired


def test_paired_differences_are_taken_seed_by_seed():
    # differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t(0.975, 2) = 4.3027
    found = paired({0: 1.0, 1: 3.0, 2: 5.0, 9: 7.0}, {0: 0.0, 1: 1.0, 2: 2.0})
    assert found is not None
    assert (found.mean, found.count) == (2.0, 3)
    assert found.high - found.mean == pytest.approx(4.30265 / 3**0.5, rel=1e-4)
    assert found.low == pytest.approx(2 * found.mean - found.high)


def test_one_pair_says_nothing():
    assert paired({0: 1.0}, {0: 0.0}) is None


@pytest.mark.parametrize(
    ("difference", "answer"),
    [
        (Paired(0.1, 0.05, 0.15, 10), "yes"),
        (Paired(-0.1, -0.15, -0.05, 10), "no"),
        (Paired(0.1, -0.05, 0.25, 10), "not decided"),
        (Paired(0.1, 0.05, 0.15, 4), "not decided"),
    ],
)
def test_an_answer_needs_five_pairs_and_an_interval_without_zero(difference, answer):
    assert difference.answer("more") == answer
