"""The triangle of learning rates."""

import pytest

from ibnn.lab.training import triangle


def test_the_papers_eighty_epochs():
    rates = [triangle(epoch, 80, 0.001, 0.01) for epoch in range(80)]
    assert rates[0] == rates[79] == 0.001
    assert rates[39] == rates[40] == pytest.approx(0.01)
    assert rates == rates[::-1]
    assert rates[13] == pytest.approx(0.001 + 0.009 * 13 / 39)


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(1, [5]), (2, [5, 5]), (3, [1, 5, 1]), (4, [1, 5, 5, 1]), (5, [1, 3, 5, 3, 1])],
)
def test_short_runs_squeeze_it(epochs, expected):
    assert [triangle(epoch, epochs, 1.0, 5.0) for epoch in range(epochs)] == expected


def test_an_epoch_outside_is_refused():
    with pytest.raises(ValueError, match="epoch is 3, expected 0 to 2"):
        triangle(3, 3, 0.001, 0.01)
