"""A head fitted anew: the best one for its features, and nothing before it changes."""

import pytest
import torch
from torch import nn

from ibnn.lab.models import UCN
from ibnn.lab.training import conversion
from ibnn.lab.training.conversion import pick_penalty, refit_head


@pytest.fixture
def network() -> UCN:
    """Its convolution is positive, so that no unit is dead."""
    source = torch.Generator().manual_seed(0)
    made = UCN((1, 6, 6), 3, 1, 2, initialisation="torch", generator=source)
    for parameter in (made.blocks[0].conv.weight, made.blocks[0].conv.bias):
        parameter.data.abs_()
    return made.eval()


def test_a_refitted_head_is_the_best_one_and_nothing_else_changes(network):
    source = torch.Generator().manual_seed(1)
    x = torch.rand(90, 1, 6, 6, generator=source)
    y = torch.randint(3, (90,), generator=source)
    fitted = refit_head(network, x, y, 0.1)
    for (name, before), (_, after) in zip(
        network.state_dict().items(), fitted.state_dict().items(), strict=True
    ):
        assert name.startswith("head") or torch.equal(before, after)
    right = lambda net: float((net(x).argmax(1) == y).double().mean())  # noqa: E731
    assert right(fitted) > right(network)
    # the optimum: its penalized gradient vanishes in scaled features
    features = network.blocks(x).flatten(1).detach()
    mean, std = features.mean(0), features.std(0)
    std = std.clamp_min(0.01 * float(std.mean()))
    scaled = (features - mean) / std
    weight = fitted.head.weight.detach() * std
    error = fitted(x).detach().softmax(1) - nn.functional.one_hot(y, 3)
    gradient = error.T @ scaled / len(x) + 0.1 * weight
    start = (torch.full((90, 3), 1 / 3) - nn.functional.one_hot(y, 3)).T @ scaled / len(x)
    # 30 iterations of L-BFGS on a strongly convex problem: three digits of the first gradient
    assert gradient.norm() < 1e-3 * start.norm()


def test_the_penalty_of_a_refitted_head_is_the_one_that_is_right_on_held_out_images(
    network, monkeypatch
):
    x = torch.rand(200, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    y = (x[..., :3].mean((1, 2, 3)) > x[..., 3:].mean((1, 2, 3))).long()
    # with the large one next to nothing of the head is left
    for penalties in ((0.1, 1e4), (1e4, 0.1)):
        monkeypatch.setattr(conversion, "PENALTIES", penalties)
        assert pick_penalty(network, x, y) == 0.1
    # where nothing can be learnt, the most cautious of equals
    monkeypatch.setattr(conversion, "PENALTIES", (0.1, 1e4))
    assert pick_penalty(network, x, torch.zeros_like(y)) == 1e4


def test_a_refitted_head_does_not_see_the_size_of_features(network):
    source = torch.Generator().manual_seed(1)
    x = torch.rand(90, 1, 6, 6, generator=source)
    y = torch.randint(3, (90,), generator=source)
    small = refit_head(network, x, y, 0.1)(x)
    with torch.no_grad():
        for norm in (m for m in network.modules() if isinstance(m, nn.BatchNorm2d)):
            norm.weight *= 20
            norm.bias += 3
    # float32 sums of 72 features about 20 times their spread
    assert torch.allclose(refit_head(network, x, y, 0.1)(x), small, atol=1e-2)
