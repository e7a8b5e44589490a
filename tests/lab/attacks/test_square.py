"""Square against linear models: it finds what there is, asks no more than it may."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ibnn.lab.attacks import Noise, Square
from tests.lab.attacks import exact


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 3, 4)])
def test_it_finds_what_lies_well_inside_the_cube(shape):
    model = exact.linear(shape, 3)
    x, y = exact.images(model, 60, shape)
    eps = 0.15
    nearest = exact.smallest(model, x, y, "linf")
    found = Square(eps, 600)(model, x, y)
    assert (nearest < 0.9 * eps).sum() > 10
    assert not found.success[nearest > eps].any()
    # The best corner of a linear model can be reached square by square, down to single pixels.
    assert found.success[nearest < 0.9 * eps].all()
    assert found.queries.max() == 600
    assert found.queries[found.success].float().mean() < 200


def smooth(shape: tuple[int, ...]) -> nn.Module:
    """A linear model with weights like blurred noise, as trained networks have them."""
    model = exact.linear(shape, 2)
    layer = model[1]
    with torch.no_grad():
        weight = F.avg_pool2d(layer.weight.reshape(2, *shape), 3, 1, 1).flatten(1)
        layer.weight.copy_(weight)
        layer.bias.copy_(-weight.sum(1) / 2)
    return model


def test_in_the_round_ball_it_goes_well_beyond_noise():
    shape = (1, 10, 10)
    model = smooth(shape)
    x, y = exact.images(model, 60, shape, spread=0.6)
    nearest = exact.smallest(model, x, y, "l2")
    eps = float(nearest.median()) * 2
    found = Square(eps, 400, norm="l2")(model, x, y)
    noise = Noise(eps, 400, norm="l2")(model, x, y)
    assert not found.success[nearest > eps].any()
    # A random point of a ball of 100 dimensions goes a tenth of its radius in any one direction.
    assert noise.success.float().mean() < 0.4
    assert found.success[nearest < eps / 2].float().mean() > 0.9


def test_it_needs_no_gradient():
    class Coarse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = exact.linear((1, 4, 4), 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.detach())

    model = Coarse()
    x, y = exact.images(model, 20, (1, 4, 4))
    plain = Square(0.15, 100)(model.inner, x, y)
    assert plain.success.any()
    assert torch.equal(Square(0.15, 100)(model, x, y).images, plain.images)


def test_points_are_no_pictures():
    model = nn.Linear(4, 2)
    x = torch.full((1, 4), 0.5)
    with pytest.raises(ValueError, match=r"x has shape \(1, 4\), expected \(images, channels"):
        Square(0.1)(model, x, model(x).argmax(1))
