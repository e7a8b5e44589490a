"""Conversion: a network keeps all it was and gains the bias; going back is the identity."""

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm

import ibnn
from ibnn.conversion.convert import conversion_report, convert, standard
from ibnn.theory import transferred_margin
from tests.small_net import CONVERTED, Net, Scaled


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def implicit_layers(model: nn.Module) -> set[str]:
    return {name for name, module in model.named_modules() if hasattr(module, "effective_lam")}


def test_every_layer_but_the_head_gets_the_bias_and_the_report_says_so(net: Any, x: Tensor) -> None:
    converted: Any = convert(net, lam=-0.2)
    assert converted.conversion == conversion_report(net, lam=-0.2)
    assert converted.conversion.converted == CONVERTED
    assert converted.conversion.skipped == {"head": "classification head"}
    assert implicit_layers(converted) == set(CONVERTED)
    assert type(converted.features[0]) is ibnn.Conv2d
    assert type(converted.hidden) is ibnn.Linear
    assert type(converted.head) is nn.Linear
    converted(x)
    assert all(converted.get_submodule(name).last_solve.steps > 0 for name in CONVERTED)


def test_each_layer_computes_f_of_what_it_computed_before(net: Any, x: Tensor) -> None:
    converted: Any = convert(net, lam=-0.2)
    y = net.features[0](x)
    torch.testing.assert_close(
        converted.features[0](x), ibnn.implicit_bias(y, -0.2, coupling=ibnn.Uniform((-2, -1)))
    )
    up = net.up(torch.ones(1, 3, 2, 2), output_size=(5, 5))
    torch.testing.assert_close(
        converted.up(torch.ones(1, 3, 2, 2), output_size=(5, 5)),
        ibnn.implicit_bias(up, -0.2, coupling=ibnn.Uniform((-2, -1))),
    )
    flat = torch.ones(1, 32)
    torch.testing.assert_close(converted.hidden(flat), ibnn.implicit_bias(net.hidden(flat), -0.2))


def test_the_given_model_is_left_alone(net: Any, x: Tensor) -> None:
    before, types = copy.deepcopy(net.state_dict()), [type(m) for m in net.modules()]
    output = net(x)
    converted: Any = convert(net, recalibrate=[x])
    with torch.no_grad():
        for parameter in converted.parameters():
            parameter.zero_()
    assert [type(m) for m in net.modules()] == types
    assert not hasattr(net, "conversion")
    torch.testing.assert_close(dict(net.state_dict()), dict(before), rtol=0, atol=0)
    assert torch.equal(net(x), output)


def test_with_lam_zero_outputs_are_bitwise_the_same(net: Any, x: Tensor) -> None:
    assert torch.equal(convert(net, lam=0)(x), net(x))


def test_converting_and_going_back_is_the_identity(net: Any, x: Tensor) -> None:
    back: Any = standard(convert(net, learn_lam=True, learn_slope=True))
    assert [type(m) for m in back.modules()] == [type(m) for m in net.modules()]
    assert list(back.state_dict()) == list(net.state_dict())
    torch.testing.assert_close(dict(back.state_dict()), dict(net.state_dict()), rtol=0, atol=0)
    assert torch.equal(back(x), net(x))
    assert repr(back) == repr(net)
    assert not hasattr(back, "conversion")
    assert [set(vars(m)) for m in back.modules()] == [set(vars(m)) for m in net.modules()]


def test_standard_also_undoes_layers_that_were_built_implicit(x: Tensor) -> None:
    model = nn.Sequential(
        ibnn.Conv2d(2, 3, 3, lam=-0.1, coupling=ibnn.Window((3, 3), "gaussian", learnable=True)),
        nn.Upsample(scale_factor=2),
        ibnn.ImplicitBias(-0.3, coupling=ibnn.Uniform((-2, -1))),
        ibnn.Conv2d(3, 3, 1, lam=0.05, learn_slope=True),
    )
    plain: Any = standard(model)
    assert [type(m) for m in plain] == [nn.Conv2d, nn.Upsample, nn.Identity, nn.Conv2d]
    assert list(plain.state_dict()) == ["0.weight", "0.bias", "3.weight", "3.bias"]
    expected = nn.Sequential(nn.Conv2d(2, 3, 3), model[1], nn.Identity(), nn.Conv2d(3, 3, 1))
    expected.load_state_dict(model.state_dict(), strict=False)
    assert torch.equal(plain(x), expected(x))
    assert type(model[2]) is ibnn.ImplicitBias


def test_standard_of_a_standard_model_is_a_copy(net: Any, x: Tensor) -> None:
    same = standard(net)
    assert same is not net
    assert torch.equal(same(x), net(x))


def test_standard_refuses_a_layer_whose_forward_is_a_users_own() -> None:
    class Own(ibnn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return input

    with pytest.raises(ValueError, match="model has a Own, whose forward is its own"):
        standard(Own(3, 3))


def test_parameter_names_order_and_flags_are_kept(net: Any) -> None:
    net.features[0].weight.requires_grad_(False)
    fixed, learnt = convert(net), convert(net, learn_lam=True)
    flags = [(name, p.requires_grad) for name, p in net.named_parameters()]
    assert [(name, p.requires_grad) for name, p in fixed.named_parameters()] == flags
    added = {f"{name}.lam" for name in CONVERTED}
    assert {name for name, _ in learnt.named_parameters()} == {n for n, _ in flags} | added
    records = {f"{name}.implicit_bias" for name in CONVERTED}
    assert set(fixed.state_dict()) == set(net.state_dict()) | added | records
    outcome = convert(net, lam=-0.3).load_state_dict(net.state_dict(), strict=False)
    assert set(outcome.missing_keys) == added
    assert not outcome.unexpected_keys


def test_a_converted_state_dict_loads_into_another_conversion(net: Any, x: Tensor) -> None:
    first, second = convert(net, lam=-0.3), convert(Net().eval(), lam=-0.1)
    second.load_state_dict(first.state_dict())
    assert torch.equal(second(x), first(x))


@pytest.mark.parametrize("training", [True, False])
def test_modes_are_kept_module_by_module(net: Any, training: bool) -> None:
    net.train(training)
    net.features[1].train(not training)
    for model in (convert(net), standard(convert(net))):
        assert [m.training for m in model.modules()] == [m.training for m in net.modules()]


def test_double_precision_is_kept(net: Any, x: Tensor) -> None:
    converted: Any = convert(net.double(), lam=-0.2)
    assert converted.hidden.lam.dtype == torch.float64
    assert float(converted.hidden.lam) == -0.2
    assert converted(x.double()).dtype == torch.float64


def test_tied_weights_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(7, 4)
            self.hidden = nn.Linear(4, 4)
            self.again = nn.Linear(4, 4)
            self.again.weight = self.hidden.weight
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, token: Tensor) -> Tensor:
            return self.head(self.again(self.hidden(self.embedding(token))))

    model = Tied()
    for copied in (convert(model, skip_head=False), standard(convert(model, skip_head=False))):
        assert isinstance(copied, Tied)
        assert copied.head.weight is copied.embedding.weight
        assert copied.again.weight is copied.hidden.weight
        assert copied.head.weight is not model.head.weight
        assert len(list(copied.parameters())) == len(list(model.parameters()))
    assert type(convert(model, skip_head=False).head) is ibnn.Linear


def test_a_layer_used_twice_stays_one_layer() -> None:
    shared = nn.Linear(4, 4)
    model = nn.ModuleDict({"first": shared, "second": shared, "head": nn.Linear(4, 2)})
    converted: Any = convert(model, only="second")
    assert converted["first"] is converted["second"]
    assert converted.conversion.converted == ("first",)
    back: Any = standard(converted)
    assert back["first"] is back["second"]
    assert type(back["first"]) is nn.Linear


def test_hooks_are_kept_and_see_the_new_output(net: Any, x: Tensor) -> None:
    seen: dict[str, Tensor] = {}
    grads: list[Tensor] = []
    net.hidden.register_forward_hook(lambda m, i, out: seen.update(out=out))
    net.hidden.register_forward_pre_hook(lambda m, i: seen.update(entry=i[0]))
    net.hidden.register_full_backward_hook(lambda m, gi, go: grads.append(go[0]))
    converted: Any = convert(net, lam=-0.2)
    out = converted.head(converted.dropout(converted.hidden(torch.ones(1, 32, requires_grad=True))))
    out.sum().backward()
    expected = ibnn.implicit_bias(nn.Linear.forward(net.hidden, seen["entry"]), -0.2)
    torch.testing.assert_close(seen["out"], expected)
    assert len(grads) == 1


def test_a_users_subclass_keeps_its_attributes_and_methods(net: Any) -> None:
    layer = convert(net).features[3]
    assert isinstance(layer, Scaled)
    assert isinstance(layer, ibnn.Conv2d)
    assert (layer.note, layer.channels(), type(layer).__name__) == ("mine", 3, "Scaled")
    assert "lam=-0.1" in repr(layer)
    assert type(standard(convert(net)).get_submodule("features.3")) is Scaled


@pytest.mark.parametrize("norm", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_parametrizations_are_kept_and_can_still_be_removed(norm: Any, x: Tensor) -> None:
    model = nn.Sequential(norm(nn.Conv2d(2, 4, 3)), nn.Flatten(), nn.Linear(64, 3))
    state = copy.deepcopy(model.state_dict())
    converted: Any = convert(model, lam=-0.2).eval()
    # in training, a look at a spectrally normed weight would already change its state
    torch.testing.assert_close(dict(model.state_dict()), dict(state), rtol=0, atol=0)
    assert set(converted.state_dict()) == set(state) | {"0.lam", "0.implicit_bias"}
    y = model.eval()[0](x)
    expected = ibnn.implicit_bias(y, -0.2, coupling=ibnn.Uniform((-2, -1)))
    torch.testing.assert_close(converted[0](x), expected)
    torch.testing.assert_close(copy.deepcopy(converted)[0](x), expected)
    back: Any = standard(converted)
    assert torch.equal(back[0](x), y)
    parametrize.remove_parametrizations(converted[0], "weight")
    assert type(converted[0]) is ibnn.Conv2d
    torch.testing.assert_close(converted[0](x), expected)
    assert parametrize.is_parametrized(model[0])


@pytest.mark.parametrize("wrap", [prune.identity, spectral_norm])
def test_weights_made_by_hooks_are_made_for_the_copy(wrap: Any, x: Tensor) -> None:
    model: Any = nn.Sequential(wrap(nn.Conv2d(2, 4, 3), "weight"), nn.Flatten(), nn.Linear(64, 3))
    model(x).sum().backward()  # leaves a weight with a history behind
    converted: Any = convert(model.eval(), lam=-0.2)
    with torch.no_grad():
        for trained in (model[0], converted[0]):
            trained.weight_orig.add_(torch.arange(3.0))
    expected = ibnn.implicit_bias(model[0](x), -0.2, coupling=ibnn.Uniform((-2, -1)))
    torch.testing.assert_close(converted[0](x), expected)
    converted(x).sum().backward()
    assert converted[0].weight_orig.grad is not None


def test_converted_models_can_be_copied_pickled_and_saved(net: Any, x: Tensor) -> None:
    converted: Any = convert(net, lam=-0.2)
    file = io.BytesIO()
    torch.save(converted, file)
    file.seek(0)
    for again in (
        copy.deepcopy(converted),
        pickle.loads(pickle.dumps(converted)),
        torch.load(file, weights_only=False),
    ):
        assert torch.equal(again(x), converted(x))
        assert again.conversion == converted.conversion
        assert [type(m) for m in again.modules()] == [type(m) for m in converted.modules()]
        assert again.up.last_solve.steps == converted.up.last_solve.steps


def test_gradients_reach_the_weights_and_a_learnt_lam(net: Any, x: Tensor) -> None:
    converted: Any = convert(net, lam=-0.2, learn_lam=True)
    converted(x).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in converted.parameters())
    assert float(converted.hidden.lam.grad.abs()) > 0
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated:DeprecationWarning")
def test_a_converted_model_compiles_without_a_break(net: Any, x: Tensor) -> None:
    converted = convert(net, lam=-0.2)
    compiled = torch.compile(converted, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), converted(x))


@pytest.mark.parametrize("lam", [-0.2, -0.05, 0.05])
def test_the_margin_shrinks_by_no_more_than_the_paper_proves(lam: float) -> None:
    torch.manual_seed(0)
    units = 16
    model = nn.Sequential(nn.Linear(2, units), nn.ReLU(), nn.Linear(units, 1)).double()
    with torch.no_grad():
        head = model.get_parameter("2.weight")
        head /= head.norm()  # the proof is for a head of norm 1
    x = 5 * torch.randn(500, 2, dtype=torch.float64)
    score = model(x)[:, 0].detach()
    high, low = score > score.median() + 1, score < score.median() - 1
    new = convert(model, lam=lam)(x)[:, 0].detach()
    margin = float(score[high].min() - score[low].max())
    transferred = float(new[high].min() - new[low].max())
    assert 0 < transferred_margin(margin, lam, units) <= transferred
    assert transferred != margin
    assert float((new - score).abs().max()) <= abs(lam) * units**0.5
