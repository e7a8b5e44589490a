"""Batch-norm statistics of a converted network, against a computation by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ibnn.conversion.convert import convert
from tests.small_net import Net


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def test_recalibrated_statistics_are_the_plain_average_over_batches(net: Any, x: Tensor) -> None:
    batches = [x, 3 * x + 1, x.flip(0) - 2]
    net.features[1].momentum = 0.3
    net.features[1].train()(net.features[0](x))  # a past that must not be averaged in
    net.features[1].eval()
    past = net.features[1].running_mean.clone()
    recorded: list[bool] = []
    net.features[1].register_forward_pre_hook(lambda *_: recorded.append(torch.is_grad_enabled()))
    net.hidden.train()
    converted: Any = convert(net, lam=-0.2, recalibrate=[(batch, None) for batch in batches])
    y = [converted.features[0](batch).detach() for batch in batches]
    mean = torch.stack([b.mean((0, 2, 3)) for b in y]).mean(0)
    var = torch.stack([b.var((0, 2, 3), unbiased=True) for b in y]).mean(0)
    norm = converted.features[1]
    torch.testing.assert_close(norm.running_mean, mean)
    torch.testing.assert_close(norm.running_var, var)
    assert int(norm.num_batches_tracked) == 3
    assert norm.momentum == 0.3
    assert [m.training for m in converted.modules()] == [m.training for m in net.modules()]
    assert recorded == [False] * 3
    assert torch.equal(net.features[1].running_mean, past)


def test_one_tensor_is_one_batch(net: Any, x: Tensor) -> None:
    one, listed = convert(net, recalibrate=x), convert(net, recalibrate=[x])
    assert torch.equal(one.features[1].running_mean, listed.features[1].running_mean)


def test_dropout_adds_no_noise_while_recalibrating(x: Tensor) -> None:
    model = nn.Sequential(
        nn.Conv2d(2, 2, 1), nn.Dropout(0.9), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 1)
    ).train()
    converted: Any = convert(model, recalibrate=[x])
    mean = converted[0](x).mean((0, 2, 3))
    torch.testing.assert_close(converted[2].running_mean, mean.detach())
    assert all(m.training for m in converted.modules())


def test_a_batch_norm_that_no_batch_reaches_keeps_its_statistics(net: Any, x: Tensor) -> None:
    net.unused = nn.BatchNorm2d(2)
    torch.nn.init.constant_(net.get_buffer("unused.running_mean"), 5.0)
    assert torch.equal(convert(net, recalibrate=[x]).unused.running_mean, torch.full((2,), 5.0))
