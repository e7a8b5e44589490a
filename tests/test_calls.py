"""What a call of a layer costs beside its solve, and what it keeps until the next one."""

import copy
import pickle

import pytest
import torch
from torch.autograd import forward_ad
from torch.profiler import ProfilerActivity, profile

import ibnn
from ibnn._core import fast_path
from ibnn.engine.native import loader

compiled = pytest.mark.skipif(not loader.available(), reason="no compiled engine")


def ops_of(call) -> list[str]:
    """The ops of torch that a call makes, those inside of others too. (A dispatch mode would see
    the opaque ops instead: it is somebody who watches.)"""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    return [event.name for event in seen.events() or () if event.name.startswith("aten::")]


@compiled
def test_a_call_makes_few_ops(generator):
    """z, slope * z, v and the gradient of lam: each is made of two to four ops, and lam and slope
    are read (two ops each time), once more for the bound of lam. It was 20, 19 and 21 ops."""
    layer = ibnn.ImplicitBias(lam=-0.1)
    y = torch.randn(128, 3, generator=generator, requires_grad=True)
    g = torch.randn(128, 3, generator=generator)
    z = layer(y)
    with torch.inference_mode():
        assert len(ops_of(lambda: layer(y))) <= 8
    assert len(ops_of(lambda: layer(y))) <= 9
    assert len(ops_of(lambda: torch.autograd.grad(z, (y, layer.lam), g))) <= 10


@compiled
def test_nothing_is_kept_for_a_gradient_nobody_wants(generator, monkeypatch):
    layer = ibnn.Linear(4, 3, lam=-0.1).requires_grad_(False)
    x = torch.randn(5, 4, generator=generator)
    assert layer(x.clone().requires_grad_()).grad_fn is not None
    monkeypatch.setattr(fast_path, "_solve", None)  # what keeps z for a backward pass
    assert layer(x).grad_fn is None
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        layer(x.requires_grad_())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchScript, inside of torch
def test_tangents_pass_through_a_gradient(generator):
    """Forward over reverse: the derivative of a gradient along t, against differences of it."""
    y, t = torch.randn(2, 4, 5, dtype=torch.float64, generator=generator)

    def gradient(at):
        return torch.autograd.grad(ibnn.implicit_bias(at, -0.2).pow(3).sum(), at)[0]

    step = 1e-6
    ahead, behind = (gradient((y + s * step * t).requires_grad_()) for s in (1, -1))
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(gradient(forward_ad.make_dual(y.requires_grad_(), t)))
    # 1e-12 of third order, and the rounding of gradients of up to 1e2 over the step
    torch.testing.assert_close(found.tangent, (ahead - behind) / (2 * step), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", [3, 600])
def test_the_gradient_of_lam_is_the_sum_over_rows(rows, generator):
    """Few rows and many are added in different ways."""
    y = torch.randn(rows, 5, generator=generator)
    one, each = torch.tensor(-0.1, requires_grad=True), torch.full((rows,), -0.1)
    (of_one,) = torch.autograd.grad(ibnn.implicit_bias(y, one).square().sum(), one)
    z = ibnn.implicit_bias(y[None], each.requires_grad_())  # rows as channels
    (of_each,) = torch.autograd.grad(z.square().sum(), each)
    torch.testing.assert_close(of_one, of_each.sum(), rtol=1e-5, atol=0)


def test_what_a_layer_keeps_between_calls_follows_its_changes(generator):
    x = torch.randn(6, 4, generator=generator)
    layer = ibnn.Linear(4, 5, lam=-0.1)
    layer(x)
    layer.lam.data.fill_(-0.3)
    assert torch.equal(layer(x), ibnn.implicit_bias(torch.nn.Linear.forward(layer, x), -0.3))
    layer.coupling = ibnn.Dense(units=5)
    torch.testing.assert_close(
        layer(x), ibnn.implicit_bias(torch.nn.Linear.forward(layer, x), -0.3)
    )
    with pytest.raises(ValueError, match="5"):
        ibnn.ImplicitBias(coupling=ibnn.Dense(units=5))(torch.randn(2, 4))
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert twin.last_solve is None
        assert torch.equal(twin(x), layer(x))
    record = pickle.loads(pickle.dumps(layer.last_solve))
    assert repr(record) == repr(layer.last_solve)


def test_gradients_of_a_fixed_slope_may_be_asked_for(generator):
    """Limits of lam that were kept would belong to the graph of the call before."""
    layer = ibnn.ImplicitBias(lam=0.09)
    layer.slope = torch.tensor(20.0, requires_grad=True)
    y = torch.randn(6, 4, generator=generator)
    first, second = (torch.autograd.grad(layer(y).square().sum(), layer.slope) for _ in range(2))
    assert first == second
    assert torch.equal(copy.deepcopy(layer)(y), layer(y))


def test_limits_of_lam_follow_a_slope_that_is_replaced(generator):
    """Tensors that take each other's place in memory are not taken for each other."""
    layer = ibnn.ImplicitBias(lam=0.09)
    for slope in (10.0, 1.0, 20.0, 2.0, 40.0):
        layer.slope = torch.tensor(slope)
        assert layer.effective_lam.item() == pytest.approx(min(0.09, 0.95 / slope), rel=1e-6)
