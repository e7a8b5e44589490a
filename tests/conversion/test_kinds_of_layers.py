"""Every kind of layer: transposed, lazy, by name; choices by kind; nothing is left unsaid."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ibnn
from tests.small_net import Net

LAZY = "ignore:Lazy modules are a new feature:UserWarning"


class Conv1D(nn.Module):
    """As Hugging Face has it: a linear layer whose weight is (inputs, outputs)."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight = nn.Parameter(torch.randn(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.reshape(-1, self.nx), self.weight).view(
            *x.shape[:-1], self.nf
        )


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_transposed_convolution_has_a_class_of_its_own(dims: int) -> None:
    parent: Any = getattr(nn, f"ConvTranspose{dims}d")
    kind: Any = getattr(ibnn, f"ConvTranspose{dims}d")
    layer = parent(2, 3, 2, stride=2)
    converted: Any = ibnn.convert(layer, lam=-0.3, skip_head=False)
    assert type(converted) is kind
    assert type(ibnn.standard(converted)) is parent
    built = kind(2, 3, 2, stride=2, lam=-0.3, learn_lam=False)
    built.load_state_dict(layer.state_dict(), strict=False)
    x = torch.randn(2, 2, *(3,) * dims)
    units = ibnn.Uniform(tuple(range(-dims, 0)))
    size = [7] * dims
    expected = ibnn.implicit_bias(layer(x, output_size=size), -0.3, coupling=units)
    torch.testing.assert_close(built(x, output_size=size), expected)
    torch.testing.assert_close(converted(x, output_size=size), expected)
    assert "lam=-0.3" in repr(built)


def test_the_linear_layers_of_gpt2_are_found_by_their_name_and_shape() -> None:
    model = nn.Sequential(Conv1D(6, 4), nn.ReLU(), Conv1D(4, 6), nn.Linear(4, 2))
    converted: Any = ibnn.convert(model, lam=-0.4)
    assert converted.conversion.converted == ("0", "2")
    assert isinstance(converted[0], Conv1D)
    assert isinstance(converted[0], ibnn.ImplicitLayer)
    x = torch.randn(3, 5, 4)
    torch.testing.assert_close(converted[0](x), ibnn.implicit_bias(model[0](x), -0.4))
    assert torch.equal(ibnn.convert(model, lam=0.0)(x), model(x))
    back: Any = ibnn.standard(pickle.loads(pickle.dumps(converted)))
    assert type(back[0]) is Conv1D
    assert torch.equal(back(x), model(x))


def test_fx_records_all_arguments_of_a_layer_without_a_class_of_its_own() -> None:
    class Conv1D(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nf, self.weight = 6, nn.Parameter(torch.randn(4, 6))

        def forward(self, x: Tensor, shift: float = 0.0, *, scale: float = 1.0) -> Tensor:
            return scale * (x @ self.weight) + shift

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map = Conv1D()

        def forward(self, x: Tensor) -> Tensor:
            return self.map(x, 0.5, scale=3.0)

    converted: Any = ibnn.convert(Model(), lam=-0.4, skip_head=False)
    assert isinstance(converted.map, ibnn.ImplicitLayer)
    x = torch.randn(3, 4)
    traced = torch.fx.symbolic_trace(converted)
    torch.testing.assert_close(traced(x), converted(x), rtol=0, atol=0)


def test_a_module_that_only_bears_the_name_is_no_linear_layer() -> None:
    class Conv1D(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3, 3, 3))

    report = ibnn.conversion_report(nn.Sequential(Conv1D(), nn.Linear(3, 3)), skip_head=False)
    assert report.converted == ("1",)
    assert report.others == {"0": "Conv1D with parameters of its own: weight"}


@pytest.mark.filterwarnings(LAZY)
@pytest.mark.parametrize(
    ("lazy", "kind", "shape"),
    [
        (nn.LazyLinear(4), ibnn.Linear, (2, 3)),
        (nn.LazyConv1d(4, 3), ibnn.Conv1d, (2, 3, 5)),
        (nn.LazyConv2d(4, 3), ibnn.Conv2d, (2, 3, 5, 5)),
        (nn.LazyConvTranspose2d(4, 3), ibnn.ConvTranspose2d, (2, 3, 5, 5)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_a_lazy_layer_is_implicit_when_it_gets_its_weights(
    lazy: Any, kind: Any, shape: tuple[int, ...]
) -> None:
    model: Any = nn.Sequential(copy.deepcopy(lazy))
    converted: Any = ibnn.convert(model, lam=-0.3, skip_head=False, learn_lam=True)
    assert type(ibnn.standard(converted)[0]) is type(lazy)
    x = torch.randn(shape)
    z = converted(x)
    assert type(converted[0]) is kind
    plain: Any = ibnn.standard(converted)
    assert type(plain[0]) is type(lazy).cls_to_become
    y = plain(x)
    units = ibnn.Uniform(tuple(range(-max(len(shape) - 2, 1), 0)))
    torch.testing.assert_close(z, ibnn.implicit_bias(y, -0.3, coupling=units))
    z.sum().backward()
    assert converted[0].lam.grad is not None


def test_everything_that_holds_weights_is_in_the_report_with_what_it_is() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gamma = nn.Parameter(torch.ones(4))
            self.inner = nn.Linear(4, 4)

    model = nn.ModuleDict(
        {
            "table": nn.Embedding(5, 4),
            "norm": nn.LayerNorm(4),
            "scaled": Scaled(),
            "rnn": nn.GRU(4, 4),
            "bare": nn.LayerNorm(4, elementwise_affine=False),
            "head": nn.Linear(4, 2),
        }
    )
    report = ibnn.conversion_report(model)
    assert report.converted == ("scaled.inner",)
    assert report.others == {
        "table": "Embedding, a table",
        "norm": "LayerNorm, a normalization",
        "scaled": "Scaled with parameters of its own: gamma",
    }
    told = {*report.converted, *report.skipped, *report.unreached, *report.others}
    holders = {name for name, m in model.named_modules() if any(True for _ in m.parameters(False))}
    assert told == holders
    assert "1 x LayerNorm, a normalization ('norm')" in str(report)


def test_parametrizations_of_a_layer_are_not_listed_beside_it() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    report = ibnn.conversion_report(nn.Sequential(layer, nn.Linear(3, 3)))
    assert (report.converted, report.others) == (("0",), {})


def test_couplings_are_chosen_by_kind_of_layer() -> None:
    chosen = {"conv": "channels", "linear": ibnn.Dense(units=6)}
    converted: Any = ibnn.convert(Net(), coupling=chosen)
    assert converted.features[0].coupling.dims == (-3,)
    assert isinstance(converted.hidden.coupling, ibnn.Dense)
    by_default: Any = ibnn.convert(Net(), coupling={"linear": "features"})
    assert by_default.features[0].coupling.dims == (-2, -1)
    assert by_default.hidden.coupling.dims == (-1,)


def test_coupling_and_lam_may_be_functions_of_name_and_layer() -> None:
    def coupling(name: str, layer: nn.Module) -> Any:
        return ibnn.Window((3, 3)) if name == "up" else None

    def lam(name: str, layer: nn.Module) -> float:
        return -0.5 if isinstance(layer, nn.Linear) else -0.25

    converted: Any = ibnn.convert(Net(), lam, coupling=coupling)
    assert isinstance(converted.up.coupling, ibnn.Window)
    assert converted.features[0].coupling.dims == (-2, -1)
    assert (float(converted.hidden.lam), float(converted.up.lam)) == (-0.5, -0.25)


def test_layers_that_share_their_weights_share_them_after_conversion_and_training() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    model[1].weight = model[0].weight
    converted: Any = ibnn.convert(model, lam={"0": -0.1, "1": -0.5})
    assert converted[0].weight is converted[1].weight
    optimizer = torch.optim.SGD(converted.parameters(), 0.1)
    converted(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    assert converted[0].weight is converted[1].weight
    assert [float(converted[i].lam) for i in (0, 1)] == pytest.approx([-0.1, -0.5])
