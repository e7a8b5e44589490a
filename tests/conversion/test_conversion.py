"""Which layers a conversion takes, which it cannot reach, and what it refuses."""

import logging
import pickle
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ibnn
from ibnn.conversion.convert import conversion_report, convert, standard
from tests.small_net import CONVERTED, Doubled, Halved, Net


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def test_layers_are_chosen_by_pattern_patterns_or_predicate(net: Any) -> None:
    def chosen(only: Any) -> tuple[str, ...]:
        return convert(net, only=only).conversion.converted

    assert chosen("features.*") == ("features.0", "features.3")
    assert chosen(["hidden", "up"]) == ("up", "hidden")
    assert chosen(name for name in ("hidden", "up")) == ("up", "hidden")
    assert chosen(lambda name, layer: isinstance(layer, nn.Conv2d)) == ("features.0", "features.3")
    report = conversion_report(net, only="up")
    assert report.skipped == dict.fromkeys(
        ("features.0", "features.3", "hidden", "head"), "not chosen by only"
    )


def test_the_head_is_the_last_linear_or_pointwise_layer() -> None:
    conv, pointwise, linear = nn.Conv2d(2, 2, 3), nn.Conv2d(2, 2, 1), nn.Linear(2, 2)

    def skipped(*layers: nn.Module) -> tuple[str, ...]:
        return tuple(conversion_report(nn.Sequential(*layers)).skipped)

    assert skipped(conv, linear) == ("1",)
    assert skipped(linear, conv, pointwise) == ("2",)
    assert skipped(linear, pointwise, conv) == ("0",)
    assert skipped(pointwise, conv) == ()
    assert skipped(linear, nn.Linear(2, 2), linear) == ("0",)  # one layer, first and last
    # a head that cannot be converted is still the head: the layer before it is not mistaken for it
    assert skipped(conv, linear, Doubled(2, 2)) == ()


def test_the_head_is_converted_when_asked(net: Any) -> None:
    assert "head" in convert(net, skip_head=False).conversion.converted


def test_lam_by_name_pattern_first_fit_counts(net: Any) -> None:
    converted: Any = convert(net, lam={"features.0": -0.5, "features.*": 0.05, "*": -0.2})
    lams = [round(float(converted.get_submodule(name).lam), 6) for name in CONVERTED]
    assert lams == [-0.5, 0.05, -0.2, -0.2]


def test_converting_twice_leaves_implicit_layers_as_they_are(net: Any) -> None:
    twice: Any = convert(convert(net, lam=-0.3, only="features.*"), lam=-0.1)
    assert round(float(twice.features[0].lam), 6) == -0.3
    assert twice.conversion.converted == ("up", "hidden")
    assert twice.conversion.skipped["features.0"] == "has an implicit bias already"


def test_coupling_names_are_for_convolutions_only(net: Any) -> None:
    converted: Any = convert(net, coupling="layer")
    assert converted.features[0].coupling.dims == (-3, -2, -1)
    assert converted.up.coupling.dims == (-3, -2, -1)
    assert converted.hidden.coupling.dims == (-1,)


def test_every_layer_gets_its_own_copy_of_a_coupling_object(net: Any) -> None:
    window = ibnn.Window((3, 3), "gaussian", learnable=True)
    converted: Any = convert(net, only=["features.*", "up"], coupling=window)
    couplings = [converted.features[0].coupling, converted.up.coupling, window]
    assert len({id(coupling.std) for coupling in couplings}) == 3
    assert not converted.up.coupling.training
    assert set(standard(converted).state_dict()) == set(net.state_dict())


def test_options_reach_the_layers(net: Any) -> None:
    layer: Any = convert(net, slope=5.0, sigma="arctan", max_steps=7, on_failure="raise").hidden
    assert (float(layer.slope), layer.max_steps, layer.on_failure) == (5.0, 7, "raise")
    assert layer.sigma.name == "arctan"
    assert not layer.learn_lam


@pytest.mark.parametrize("learn_lam", [False, True])
def test_bounds_without_zero_are_compared_with_the_lam_of_the_layers(
    net: Any, learn_lam: bool
) -> None:
    options: dict[str, Any] = {"bounded": (-1.0, -0.1), "learn_lam": learn_lam}
    layer: Any = convert(net, lam=-0.5, **options).hidden  # and no warning about another lam
    assert layer.effective_lam == -0.5
    if not learn_lam:
        with pytest.raises(ValueError, match=r"layer .* lam=-2.0 is outside of bounded="):
            convert(net, lam=-2.0, **options)


def test_attention_is_listed_and_really_unchanged() -> None:
    class Attend(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
            self.hidden = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.hidden(self.attention(x, x, x, need_weights=False)[0])

    model = Attend().eval()
    converted: Any = convert(model, lam=-0.5, skip_head=False)
    report = conversion_report(model, skip_head=False)
    assert report.unreached == {
        "attention": "MultiheadAttention multiplies by its packed projections itself",
        "attention.out_proj": "MultiheadAttention reads its weights without calling it",
    }
    assert report.converted == ("hidden",)
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        attended = model.attention(x, x, x)[0]
        assert torch.equal(converted.attention(x, x, x)[0], attended)
        expected = ibnn.implicit_bias(model.hidden(attended), -0.5)
        torch.testing.assert_close(converted(x), expected)
        assert not torch.allclose(converted(x), model(x), atol=1e-3)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")  # torch's own
@pytest.mark.parametrize("mask", [False, True])
def test_the_fused_path_of_an_encoder_does_not_pass_the_bias_by(mask: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(2, 3, 4)
    padding = torch.tensor([[False, False, True], [False, False, False]]) if mask else None
    converted: Any = convert(model, lam=-0.5, skip_head=False)
    names = tuple(f"layers.{i}.linear{k}" for i in (0, 1) for k in (1, 2))
    assert converted.conversion.converted == names
    slow = converted(x, src_key_padding_mask=padding)  # gradients on: torch calls every layer
    keep = slice(None) if padding is None else ~padding  # torch leaves anything in padded places
    with torch.no_grad():
        fast, before = (
            converted(x, src_key_padding_mask=padding),
            model(x, src_key_padding_mask=padding),
        )
        back = standard(converted)(x, src_key_padding_mask=padding)
    torch.testing.assert_close(fast[keep], slow.detach()[keep])
    assert not torch.allclose(fast[keep], before[keep], atol=1e-2)
    assert torch.equal(back, before)  # the fused path is back, to the last bit
    for name, module in pickle.loads(pickle.dumps(converted)).named_modules():
        if name in names:
            assert module.effective_lam == -0.5
    with torch.no_grad():
        nearly = convert(model, lam=0.0)(x, src_key_padding_mask=padding)
    # the same sums in another order: a few roundings of numbers of size 1
    torch.testing.assert_close(nearly[keep], before[keep], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.LSTM(3, 3), "LSTM multiplies by its recurrent weights itself"),
        (nn.GRUCell(3, 3), "GRUCell multiplies by its recurrent weights itself"),
        (nn.Bilinear(3, 3, 3), "Bilinear is not an affine map of one input"),
        (Doubled(3, 3), "Doubled has a forward of its own: put an ibnn.ImplicitBias after it"),
        (Halved(3, 3, 3), "Halved has a forward of its own: put an ibnn.ImplicitBias after it"),
        (nn.Linear(3, 3, dtype=torch.complex64), "Linear has no real floating-point weights"),
        (nn.Linear(3, 3, device="meta"), "Linear is on the meta device: give it weights before"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_layers_out_of_reach_are_listed_with_the_reason(layer: nn.Module, reason: str) -> None:
    model = nn.Sequential(layer, nn.Linear(3, 3), nn.Linear(3, 3))
    converted: Any = convert(model)
    assert converted.conversion.unreached == {"0": reason}
    assert f"not reached '0': {reason}" in str(converted.conversion)
    assert type(converted[0]) is type(layer)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchScript itself
def test_a_script_module_is_listed() -> None:
    model = nn.Sequential(torch.jit.script(nn.Sequential(nn.Linear(3, 3))), nn.Linear(3, 3))
    report = conversion_report(model, skip_head=False)
    assert report.converted == ("1",)
    assert list(report.unreached) == ["0"]
    assert "TorchScript" in report.unreached["0"]


def test_a_layer_whose_names_the_bias_needs_is_listed_not_overwritten() -> None:
    layer: Any = nn.Linear(3, 3)
    layer.slope = 0.2
    report = conversion_report(nn.Sequential(layer, nn.Linear(3, 3)))
    assert "attribute 'slope'" in report.unreached["0"]


def test_a_patched_forward_is_listed() -> None:
    layer = nn.Linear(3, 3)
    layer.forward = lambda input: input
    assert "0" in conversion_report(nn.Sequential(layer, nn.Linear(3, 3))).unreached


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"lam": "strong"}, TypeError, "lam must be a number, or numbers by name pattern"),
        ({"lam": [0.1, 0.2]}, TypeError, "lam must be a number"),
        ({"lam": float("nan")}, ValueError, "lam must be finite, got nan"),
        ({"lam": {"up": -0.1}}, ValueError, "no value for layer 'features.0'; add one for"),
        ({"lam": {"*": -0.1, "hiden": 0}}, ValueError, "pattern 'hiden' that fits no layer"),
        ({"only": 3}, TypeError, "only must be a name pattern, a list of them or a function"),
        ({"only": "nowhere.*"}, ValueError, r"only='nowhere.\*' chooses none of .*'features.0'"),
        ({"only": []}, ValueError, r"only=\[\] chooses none"),
        (
            {"only": "head"},
            ValueError,
            "only='head' chooses the classification head 'head' alone; skip_head=False",
        ),
        ({"skip_head": "fc"}, TypeError, "skip_head must be True or False, got 'fc'"),
        ({"lamda": 1}, TypeError, "unexpected keyword argument 'lamda'"),
        ({"coupling": "time"}, ValueError, "coupling='time' is not known; expected one of"),
        ({"coupling": 3}, ValueError, "coupling=3 is not known"),
        ({"coupling": {"convs": "space"}}, ValueError, "for a kind 'convs'; expected conv and lin"),
        ({"coupling": {"linear": "space"}}, ValueError, "coupling='space' for linear is not known"),
        ({"coupling": lambda n, m: "layer"}, ValueError, "'hidden': coupling='layer' is not for a"),
        ({"lam": lambda name, layer: "x"}, TypeError, "lam must be a number, .*got 'x'"),
        ({"coupling": ibnn.Uniform((-2, -1))}, ValueError, "layer 'hidden': coupling Uniform"),
        ({"slope": [1.0, 2.0]}, ValueError, "layer 'features.0': slope has shape"),
        ({"slope": -1.0}, ValueError, "slope must be positive"),
        ({"sigma": "step"}, ValueError, "sigma"),
        ({"on_failure": "shrug"}, ValueError, "on_failure='shrug'"),
        ({"recalibrate": []}, ValueError, "recalibrate yielded no batch"),
        ({"recalibrate": 3}, TypeError, "recalibrate must be an iterable of batches, got 3"),
        ({"recalibrate": ["x"]}, TypeError, "recalibrate must yield tensors or tuples"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_wrong_arguments_are_refused(
    net: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        convert(net, **arguments)
    assert "\n" not in str(caught.value)


def test_models_without_anything_to_convert_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no standard linear layer or convolution in reach$"):
        convert(nn.ReLU())
    with pytest.raises(ValueError, match=r"not reached: '': GRU multiplies"):
        convert(nn.GRU(3, 3))
    with pytest.raises(ValueError, match="is one layer, which counts as the classification head"):
        convert(nn.Linear(3, 3))
    with pytest.raises(ValueError, match="no layer before the classification head '0'"):
        convert(nn.Sequential(nn.Linear(3, 3)))
    with pytest.raises(
        ValueError, match="only='1' chooses the classification head '1' alone; skip"
    ):
        convert(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), only="1")
    with pytest.raises(ValueError, match="nothing to convert: already implicit: ''"):
        convert(ibnn.Linear(3, 3), skip_head=False)
    with pytest.raises(ValueError, match="nothing to convert: already implicit: '1'"):
        convert(nn.Sequential(nn.ReLU(), ibnn.ImplicitBias()))
    with pytest.raises(ValueError, match="no batch norm with running statistics"):
        convert(nn.Linear(3, 3), skip_head=False, recalibrate=[torch.ones(2, 3)])
    assert conversion_report(nn.Linear(3, 3)).converted == ()


def test_a_pattern_that_fits_no_layer_is_refused_even_if_another_fits():
    model = nn.Sequential(nn.Linear(3, 3), nn.GRU(3, 3), nn.Linear(3, 3))
    with pytest.raises(ValueError, match=r"only has a pattern 'layer3.\*' that fits no layer"):
        convert(model, only=["0", "layer3.*"])
    with pytest.raises(ValueError, match="only has a pattern '3' that fits no layer"):
        conversion_report(model, only=["0", "3"])
    # the head and a layer out of reach are layers, too
    assert convert(model, only=["0", "1", "2"]).conversion.converted == ("0",)


def test_weights_in_the_place_of_a_model_are_not_printed():
    weights = nn.Linear(100, 100).state_dict()
    for call in (convert, standard, lambda model: ibnn.parameter_groups(model, lr=0.1)):
        with pytest.raises(
            TypeError, match=r"^model must be a torch.nn.Module, got a OrderedDict$"
        ):
            call(weights)


def test_what_is_not_a_model_or_cannot_be_copied_is_refused(net: Any) -> None:
    not_a_model: Any = [1]
    for function in (convert, standard, conversion_report, ibnn.Plan.of):
        with pytest.raises(TypeError, match=r"model must be a torch.nn.Module, got \[1\]"):
            function(not_a_model)
    net.lock = threading.Lock()
    with pytest.raises(ValueError, match=r"model cannot be copied by copy.deepcopy"):
        convert(net)


def test_an_attribute_of_the_users_is_never_overwritten(net: Any) -> None:
    net.conversion = "mine"
    with pytest.raises(ValueError, match="attribute 'conversion' of its own"):
        convert(net)


def test_one_line_is_logged(net: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="ibnn"):
        convert(net)
    assert caplog.messages == ["converted 4 layers, skipped 1, could not reach 0"]
