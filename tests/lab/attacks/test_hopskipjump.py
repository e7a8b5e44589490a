"""HopSkipJump: near the nearest wrong point, from labels alone."""

import pytest
import torch
from torch import Tensor, nn

from ibnn.lab.attacks import HopSkipJump
from tests.lab.attacks import exact


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_it_comes_near_the_nearest_wrong_point(norm):
    shape = (1, 3, 3)
    model = exact.linear(shape, 3)
    x, y = exact.images(model, 30, shape, spread=0.6)
    nearest = exact.smallest(model, x, y, norm)
    found = HopSkipJump(steps=8, samples=40, norm=norm)(model, x, y)
    assert found.success.all()
    ratio = found.distance.double() / nearest
    assert (ratio >= 1 - 1e-4).all()
    # An estimate of the normal from n labels in d = 9 dimensions is off by about
    # sqrt(d / n) = 0.3 to 0.5 radians, and steps average over it: within a tenth, mostly.
    assert ratio.median() < 1.1
    # the first crossing found, before any estimate, is much farther
    start = HopSkipJump(steps=1, samples=1, norm=norm)(model, x, y)
    assert (start.distance.double() / nearest).median() > 1.5


def test_it_sees_labels_and_nothing_else():
    model = exact.curved()
    x, y = exact.images(model, 20, (1, 4, 4))
    attack = HopSkipJump(steps=2, samples=10)
    open_book, closed = attack(model, x, y), attack(exact.Labels(model), x, y)
    assert open_book.success.all()
    assert torch.equal(open_book.images, closed.images)
    assert torch.equal(open_book.queries, closed.queries)


def test_a_batch_of_one_class_starts_from_noise():
    model = exact.linear((1, 3, 3), 2)
    x, y = exact.images(model, 60, (1, 3, 3), spread=0.6)
    x, y = x[y == 0], y[y == 0]
    found = HopSkipJump(steps=1, samples=5)(model, x, y)
    assert found.success.all()


def test_nothing_found_is_infinitely_far():
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.eye(2)[0].repeat(len(x), 1)

    x = torch.rand(3, 1, 2, 2)
    found = HopSkipJump()(Constant(), x, torch.zeros(3, dtype=torch.long))
    assert not found.success.any()
    assert (found.distance == torch.inf).all()
    assert (found.queries == 50).all()
    assert torch.equal(found.images, x)
