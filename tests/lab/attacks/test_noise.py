"""The controls: noise that is as likely as it should be, a search that only gets better."""

import math

import pytest
import torch
from torch import Tensor, nn

from ibnn.lab.attacks import Noise, RandomSearch
from tests.lab.attacks import exact


class Above(nn.Module):
    """Class 1 where the first value is above a half."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x[:, 0] * 0, x[:, 0] - 0.5], 1)


@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize(("norm", "units"), [("linf", 2), ("l2", 2), ("l2", 3)])
def test_noise_is_uniform_in_the_ball(norm, units, draws):
    eps, gap, count = 0.2, 0.08, 4000
    x = torch.full((count, units), 0.5)
    x[:, 0] -= gap
    found = Noise(eps, draws, norm=norm)(Above(), x, torch.zeros(count, dtype=torch.long))
    h = gap / eps  # the cap of the unit ball above this height, over the ball
    one = {
        ("linf", 2): (1 - h) / 2,
        ("l2", 2): (math.acos(h) - h * math.sqrt(1 - h * h)) / math.pi,
        ("l2", 3): (1 - h) ** 2 * (2 + h) / 4,
    }[norm, units]
    expected = 1 - (1 - one) ** draws
    error = math.sqrt(expected * (1 - expected) / count)
    assert abs(found.success.double().mean() - expected) < 4 * error


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_search_finds_more_the_longer_it_looks_and_nothing_that_is_not_there(norm):
    shape = (1, 4, 4)
    model = exact.linear(shape, 3)
    x, y = exact.images(model, 100, shape)
    nearest = exact.smallest(model, x, y, norm)
    eps = float(nearest.median())
    short, long = (RandomSearch(eps, n, norm=norm)(model, x, y) for n in (5, 150))
    assert (short.success <= long.success).all()
    assert short.success.sum() < long.success.sum()
    assert not long.success[nearest > eps].any()
    assert long.success.sum() > Noise(eps, 150, norm=norm)(model, x, y).success.sum()


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_wrong_share_is_named(share):
    with pytest.raises(ValueError, match=f"fraction is {share}, expected above 0 and at most 1"):
        RandomSearch(0.1, fraction=share)
