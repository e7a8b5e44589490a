"""The kinds of neuron: each is the formula it claims to be, and differs from the standard network
in that formula alone."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ibnn.lab.models import UCN, Neuron, Perceptron, lam_layers, neuron_names
from ibnn.lab.models.neurons.standard import Standard

LAM, P = 0.06, 10.0
WITH_LAM = ("gain", "mean-field", "lite")
IMPLICIT = ("implicit", "implicit-per-channel", "implicit-first-fixed")
CONTROLS = [name for name in neuron_names() if name not in ("standard", *IMPLICIT)]


def lite(y: Tensor) -> Tensor:
    rows = y.flatten(2)
    pairs = torch.tanh(P * (rows.unsqueeze(-2) - rows.unsqueeze(-1)))  # [i, k]: y_k - y_i
    return y - LAM * pairs.mean(-1).view_as(y)


def local_response(y: Tensor) -> Tensor:
    channels = y.shape[1]
    power = torch.zeros_like(y)
    for c in range(channels):
        for other in range(max(0, c - 2), min(channels, c + 3)):
            power[:, c] += y[:, other] ** 2 / 5
    return y / (1 + 1e-4 * power) ** 0.75


def normed(y: Tensor, dims: tuple[int, ...]) -> Tensor:
    mean = y.mean(dims, keepdim=True)
    return (y - mean) / torch.sqrt(y.var(dims, unbiased=False, keepdim=True) + 1e-5)


def about_mean(y: Tensor, factor: float) -> Tensor:
    mean = y.mean((-2, -1), keepdim=True)
    return mean + (y - mean) * factor


# y -> z for maps (images, channels, height, width), as docs and PROTOCOL write them
FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "gain": lambda y: about_mean(y, 1 / (1 - LAM * P)),
    "mean-field": lambda y: y - LAM * torch.tanh(P * (y.mean((-2, -1), keepdim=True) - y)),
    "lite": lite,
    "instance-norm": lambda y: normed(y, (-2, -1)),
    "instance-norm-affine": lambda y: normed(y, (-2, -1)),
    "group-norm": lambda y: normed(y, (1, 2, 3)),
    "local-response-norm": local_response,
    "divisive": lambda y: y / torch.sqrt(1 + (y**2).mean((-2, -1), keepdim=True)),
    "shrink": lambda y: about_mean(y, 1 / (1 + 2)),
}


def convolution(kind: str, channels: int = 3, lam: float = LAM) -> nn.Conv2d:
    """In float64; lam is not learnt, so that its float32 rounding can be undone here."""
    layer = Neuron(kind, lam=lam, learn_lam=False).conv2d(0, 2, channels, 3).double()
    for part in lam_layers(layer):
        part.lam.fill_(lam)
    return layer


def affine(layer: nn.Conv2d, x: Tensor) -> Tensor:
    return nn.functional.conv2d(x, layer.weight, layer.bias)


@pytest.mark.parametrize("kind", FORMULAS)
def test_a_control_is_its_formula(kind):
    layer = convolution(kind)
    x = torch.randn(4, 2, 8, 7, dtype=torch.float64)
    with torch.no_grad():
        z, expected = layer(x), FORMULAS[kind](affine(layer, x))
    # sums of at most 126 terms of size 1 in float64; `lite` reads tanh off a grid, to 1e-10
    torch.testing.assert_close(z, expected, rtol=0, atol=1e-9 if kind == "lite" else 1e-13)


def test_squeeze_and_excitation_is_its_formula():
    layer = convolution("squeeze-excite")
    gate = layer.then
    gate.draw(torch.Generator().manual_seed(3))
    x = torch.randn(4, 2, 8, 7, dtype=torch.float64)
    with torch.no_grad():
        y = affine(layer, x)
        first = nn.functional.linear(y.mean((2, 3)), gate.squeeze, gate.squeeze_bias)
        second = nn.functional.linear(first.relu(), gate.excite, gate.excite_bias)
        torch.testing.assert_close(layer(x), y * second.sigmoid()[..., None, None])
        assert second.std() > 0.01  # the gates differ, or this would say nothing


def test_every_control_has_a_formula_here():
    assert {*FORMULAS, "squeeze-excite"} == set(CONTROLS)


@pytest.mark.parametrize("kind", CONTROLS)
def test_gradients_are_those_of_the_map(kind):
    layer = convolution(kind, channels=2)
    learnt = Neuron(kind, lam=LAM).conv2d(0, 2, 2, 3).double()
    learnt.load_state_dict(layer.state_dict())
    for part in learnt.modules():
        if hasattr(part, "draw"):
            part.draw(torch.Generator().manual_seed(1))
    names, values = zip(*learnt.named_parameters(), strict=True)
    x = torch.randn(2, 2, 5, 5, dtype=torch.float64, requires_grad=True)

    def outputs(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(learnt, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(outputs, (x, *values), fast_mode=True)


@pytest.mark.parametrize("kind", [*WITH_LAM, "implicit"])
def test_at_lam_zero_the_network_is_the_standard_one(kind):
    standard, other = UCN((1, 28, 28), 10, 2, 3), UCN((1, 28, 28), 10, 2, 3, kind)
    incompatible = other.load_state_dict(standard.state_dict(), strict=False)
    assert not incompatible.unexpected_keys
    x = torch.rand(4, 1, 28, 28)
    assert torch.equal(standard.eval()(x), other.eval()(x))


@pytest.mark.parametrize("network", ["ucn", "perceptron"])
@pytest.mark.parametrize("kind", neuron_names())
def test_every_kind_starts_from_the_same_weights(kind, network):
    def make(kind: str) -> nn.Module:
        generator = torch.Generator().manual_seed(5)
        if network == "ucn":
            return UCN((1, 28, 28), 10, 2, 3, kind, generator=generator)
        return Perceptron(2, 5, 3, kind, generator=generator)

    found = make(kind).state_dict()
    for name, value in make("standard").state_dict().items():
        assert torch.equal(value, found[name]), name


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        *[(kind, 2) for kind in (*WITH_LAM, "implicit", "divisive")],
        *[(kind, 0) for kind in ("instance-norm", "group-norm", "local-response-norm", "shrink")],
        ("instance-norm-affine", 2 * 2 * 3),
        ("squeeze-excite", 2 * (2 * 9 + 2 * 3)),
    ],
)
def test_the_number_of_added_parameters(kind, more):
    network = UCN((3, 32, 32), 10, 2, 3, kind)
    assert sum(p.numel() for p in network.parameters() if p.requires_grad) == 31_198 + more


@pytest.mark.filterwarnings("ignore::ibnn.ThresholdWarning")
@pytest.mark.parametrize("kind", [*WITH_LAM, "implicit"])
def test_a_learnt_lam_is_bounded_as_the_neurons(kind):
    def lams(**settings: object) -> list[float]:
        network = UCN((1, 8, 8), 10, 2, 2, kind, lam=0.5, **settings)
        return [float(layer.effective_lam.detach()) for layer in lam_layers(network)]

    assert lams() == pytest.approx([0.095, 0.095])
    assert lams(slope=5.0) == pytest.approx([0.19, 0.19])
    assert lams(bounded=False) == [0.5, 0.5]
    assert lams(learn_lam=False) == [0.5, 0.5]


@pytest.mark.filterwarnings("ignore::ibnn.ThresholdWarning")
@pytest.mark.parametrize("kind", [*WITH_LAM, "implicit"])
def test_a_lam_beyond_its_bound_can_come_back(kind):
    def gradient(sign: float) -> float:
        torch.manual_seed(1)  # a weight of 0.5: one near 0 leaves only rounding beside the bias
        layer = Neuron(kind, lam=0.2).conv2d(0, 1, 1, 1)
        x = 0.01 * torch.randn(2, 1, 6, 6, generator=torch.Generator().manual_seed(0))
        spread = layer(x).square().sum()  # grows with lam
        (sign * spread).backward()
        (part,) = lam_layers(layer)
        return float(part.lam.grad)

    assert gradient(1) > 0  # descent leads back: let through
    assert gradient(-1) == 0  # descent leads further out: stopped


@pytest.mark.parametrize("kind", neuron_names())
def test_units_of_a_fully_connected_layer_are_one_row(kind):
    network = Perceptron(2, 5, 3, kind)
    x = torch.rand(7, 2)
    assert network(x).shape == (7, 3)
    if kind in ("instance-norm", "group-norm"):
        hidden = network.hidden(100 * x)
        torch.testing.assert_close(hidden.mean(1), torch.zeros(7), rtol=0, atol=1e-6)
        # n/(n-1): torch's own std divides by n - 1, the norms by n
        torch.testing.assert_close(
            hidden.std(1), torch.full((7,), (5 / 4) ** 0.5), rtol=1e-4, atol=0
        )


@pytest.mark.parametrize("kind", neuron_names())
def test_an_image_does_not_depend_on_its_batch(kind):
    network = UCN((1, 8, 8), 10, 2, 3, kind, lam=LAM, initialisation="torch").double().eval()
    x = torch.rand(5, 1, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(network(x)[2:3], network(x[2:3]), rtol=0, atol=1e-12)


def test_lam_of_both_signs_per_channel():
    network = UCN((1, 8, 8), 10, 2, 3, "implicit-per-channel", lam=0.05)
    lams = [layer.effective_lam.detach().tolist() for layer in lam_layers(network)]
    assert lams == [pytest.approx([0.05, -0.05, 0.05])] * 2
    assert sum(p.numel() for name, p in network.named_parameters() if name.endswith("lam")) == 6


def test_lam_fixed_in_the_first_layer_alone():
    network = UCN((1, 8, 8), 10, 3, 2, "implicit-first-fixed", lam=-0.2)
    first, *others = lam_layers(network)
    assert float(first.effective_lam) == pytest.approx(-0.2)
    assert not isinstance(first.lam, nn.Parameter)
    assert all(isinstance(layer.lam, nn.Parameter) and layer.lam == 0 for layer in others)


def test_a_taken_name_is_refused_and_the_same_kind_again_is_not():
    from ibnn.lab.models import register_neuron

    class Other(Standard):
        pass

    with pytest.raises(ValueError, match=r"'standard' is registered already, by .*\.Standard"):
        register_neuron(Other())
    register_neuron(Standard())
