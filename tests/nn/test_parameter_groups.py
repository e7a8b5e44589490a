"""Training as people do it: groups of parameters under optimizers, averages, checkpoints, casts."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

import ibnn


def network() -> nn.Sequential:
    torch.manual_seed(0)
    window = ibnn.Window(3, "gaussian", learnable=True)
    return nn.Sequential(
        ibnn.Conv2d(2, 4, 3, lam=-0.2, learn_slope=True, coupling=window),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        ibnn.Conv2d(4, 4, 3, lam=-0.1),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def batch(count: int = 8) -> Tensor:
    return torch.randn(count, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> list[float]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(batch()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_the_neuron_is_a_group_of_its_own_without_decay() -> None:
    model: Any = network()
    model[5].bias.requires_grad_(False)
    weights, neuron = ibnn.parameter_groups(model, 0.1, weight_decay=0.01, lam_lr=0.5)
    first, second = model[0], model[3]
    expected = {first.lam, first.slope, first.coupling.std, second.lam}
    assert set(neuron["params"]) == expected
    assert (neuron["lr"], neuron["weight_decay"]) == (0.5, 0.0)
    assert (weights["lr"], weights["weight_decay"]) == (0.1, 0.01)
    assert {*weights["params"], *expected} == {p for p in model.parameters() if p.requires_grad}
    assert ibnn.parameter_groups(model, 0.1)[1]["lr"] == 0.1
    assert [g["name"] for g in ibnn.parameter_groups(nn.Linear(2, 2), 0.1)] == ["weights"]


def test_what_a_parametrized_lam_is_made_of_has_no_decay_either() -> None:
    layer = ibnn.Linear(3, 4, lam=-0.2, learn_slope=True)
    for name in ("lam", "slope", "weight"):
        parametrize.register_parametrization(layer, name, nn.Tanh())
    weights, neuron = ibnn.parameter_groups(layer, 0.1, weight_decay=0.01)
    made_of: Any = layer.parametrizations
    assert set(neuron["params"]) == {made_of["lam"].original, made_of["slope"].original}
    assert set(weights["params"]) == {made_of["weight"].original, layer.bias}


def test_decay_moves_the_weights_and_leaves_the_neuron() -> None:
    model: Any = network()
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(ibnn.parameter_groups(model, 0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in model.named_parameters():
        kept = name.rsplit(".", 1)[-1] in ("lam", "slope", "std")
        factor = 1.0 if kept else 0.95
        torch.testing.assert_close(value.detach(), factor * before[name])


@pytest.mark.parametrize("value", [-1.0, float("nan"), "fast", True])
@pytest.mark.parametrize("name", ["lr", "weight_decay", "lam_lr"])
def test_a_rate_that_is_none_is_refused(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {"lr": 0.1, name: value}
    with pytest.raises(ValueError, match=f"{name} must be a number of at least 0, got"):
        ibnn.parameter_groups(network(), **arguments)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.AdamW, {"foreach": True}),
    ],
)
def test_optimizers_train_lam_at_its_own_rate(kind: Any, options: dict[str, Any]) -> None:
    slow, fast = network(), network()
    groups = (ibnn.parameter_groups(m, 0.01, 0.01, rate) for m, rate in ((slow, 0.0), (fast, 0.02)))
    losses = [train(m, kind(g, **options), 8) for m, g in zip((slow, fast), groups, strict=True)]
    assert all(loss[-1] < loss[0] for loss in losses)
    still: Any = slow[3]
    moved: Any = fast[3]
    assert still.lam.item() == pytest.approx(-0.1)
    assert abs(moved.lam.item() + 0.1) > 1e-4


def test_accumulated_gradients_are_those_of_the_whole_batch() -> None:
    model = network().double().eval()  # batch norm would couple the parts
    whole = copy.deepcopy(model)
    x = batch().double()
    whole(x).square().sum().backward()
    for part in x.split(2):
        model(part).square().sum().backward()
    for one, other in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-7, atol=1e-9)  # solver's accuracy


def test_a_moving_average_averages_lam_and_computes_with_it() -> None:
    model: Any = network()
    average: Any = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5), use_buffers=True)
    average.update_parameters(model)
    with torch.no_grad():
        model[3].lam.fill_(-0.5)
    average.update_parameters(model)
    assert average.module[3].lam.item() == pytest.approx(-0.3)
    x = torch.randn(2, 4, 5, 5)
    z, y = average.module[3](x), nn.Conv2d.forward.__get__(average.module[3])(x)
    expected = ibnn.implicit_bias(y, -0.3, coupling=ibnn.Uniform((-2, -1)))
    torch.testing.assert_close(z, expected)


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpoints_give_the_same_gradients(reentrant: bool) -> None:
    model = network().double().eval()
    again = copy.deepcopy(model)
    x = batch().double().requires_grad_()
    model(x).square().sum().backward()
    out: Any = checkpoint(again, x, use_reentrant=reentrant)
    out.square().sum().backward()
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-7, atol=1e-9)  # solver's accuracy


def test_under_autocast_the_gradients_stay_near_those_of_float32() -> None:
    model = network().eval()
    half = copy.deepcopy(model)
    model(batch()).square().sum().backward()
    with torch.autocast("cpu", torch.bfloat16):
        out = half(batch())
    assert out.dtype == torch.bfloat16
    out.float().square().sum().backward()
    for name, parameter in model.named_parameters():
        other = half.get_parameter(name).grad
        assert parameter.grad is not None
        assert other is not None
        assert other.dtype == torch.float32
        # three layers in bfloat16, eps 2^-8 each, summed over a batch: 10 % of the largest entry
        scale = parameter.grad.abs().max() + 1e-2
        assert float((other - parameter.grad).abs().max() / scale) < 0.1, name


def test_channels_last_stays_channels_last_and_computes_the_same() -> None:
    model = network().eval()
    last = copy.deepcopy(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = batch().to(memory_format=torch.channels_last)
    between = last[0](x)
    assert between.is_contiguous(memory_format=torch.channels_last)
    # the same sums in another order, and the accuracy of float32 solves
    torch.testing.assert_close(last(x), model(batch()), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated:DeprecationWarning")
def test_a_compiled_network_trains_as_the_plain_one() -> None:
    plain, model = network(), network()
    compiled: Any = torch.compile(model, backend="aot_eager", fullgraph=True)
    expected = train(plain, torch.optim.SGD(ibnn.parameter_groups(plain, 0.01)))
    losses = train(compiled, torch.optim.SGD(ibnn.parameter_groups(model, 0.01)))
    assert losses == pytest.approx(expected, rel=1e-4)
