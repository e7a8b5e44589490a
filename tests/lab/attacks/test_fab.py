"""FAB against smallest perturbations that are known."""

import pytest
import torch
from torch import Tensor, nn

from ibnn.lab.attacks import FAB
from tests.lab.attacks import exact


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_nearest_wrong_point_of_many_linear_classes(norm):
    shape = (2, 3, 3)
    model = exact.linear(shape, 6)
    x, y = exact.images(model, 100, shape, spread=0.3)
    nearest = exact.smallest(model, x, y, norm)
    assert nearest.max() < (0.35 if norm == "linf" else torch.inf)  # the box is out of reach
    found = FAB(norm=norm)(model, x, y)
    assert found.success.all()
    # Never nearer than the nearest (but for rounding of logits of size 1 in float32), and the
    # last of ten halvings of a segment 1.05 times as long is 1e-3 of it.
    assert (found.distance.double() >= nearest * (1 - 1e-5) - 1e-6).all()
    assert (found.distance.double() <= nearest * (1 + 1.1e-3) + 1e-6).all()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_box_bends_the_way_there(norm):
    shape = (1, 4, 4)
    model = exact.linear(shape, 2)
    x, y = exact.images(model, 100, shape)
    # Every other image at the border of the box.
    x = torch.where(
        torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.5, x, x.round()
    )
    y = model(x).argmax(1)
    nearest = exact.smallest(model, x, y, norm)
    found = FAB(norm=norm)(model, x, y)
    assert torch.equal(found.success, nearest < torch.inf)
    away = found.distance[found.success].double() / nearest[found.success]
    assert (away >= 1 - 1e-4).all()
    # 5 % too far and cut at the box, then shortened: on the segment, no more than that is lost.
    assert (away <= 1.05).all()
    assert away.median() < 1.002


class Ball(nn.Module):
    """Class 0 inside a ball around the middle of the box: the distance out is known."""

    def forward(self, x: Tensor) -> Tensor:
        away = torch.linalg.vector_norm((x - 0.5).flatten(1), dim=1)
        return torch.stack([torch.full_like(away, 0.4), away], 1)


def test_the_way_out_of_a_ball():
    x = 0.5 + 0.1 * (torch.rand(50, 1, 3, 3, generator=torch.Generator().manual_seed(0)) - 0.5)
    nearest = 0.4 - torch.linalg.vector_norm((x - 0.5).flatten(1), dim=1)
    found = FAB(norm="l2")(Ball(), x, torch.zeros(50, dtype=torch.long))
    assert found.success.all()
    # The segment's bisection, as above; the direction is radial from the first step on.
    torch.testing.assert_close(found.distance, nearest, rtol=2e-3, atol=1e-6)


def test_more_restarts_never_help_the_defender():
    model = exact.curved()
    x, y = exact.images(model, 60, (1, 4, 4))
    one, three = FAB(5)(model, x, y), FAB(5, restarts=3)(model, x, y)
    assert (three.distance < one.distance).any()
    # Another end of the bisection: a thousandth of the distance
    assert (three.distance <= one.distance * (1 + 1.1e-3)).all()


def test_nothing_found_is_infinitely_far():
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x.flatten(1).sum(1) * 0 + 1, x.flatten(1).sum(1) * 0], 1)

    x = torch.rand(3, 1, 2, 2)
    found = FAB()(Constant(), x, torch.zeros(3, dtype=torch.long))
    assert not found.success.any()
    assert (found.distance == torch.inf).all()
