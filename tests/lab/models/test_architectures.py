"""ResNet-20, ViT, GPT and MLP: any neuron in any of their places."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.models import lam_layers, network_kind, neuron_names
from ibnn.lab.models.transformer import PLACES
from ibnn.lab.training import ConfigError, RunConfig, build_network

CLASSES = 7
SIZES: dict[str, dict[str, Any]] = {
    "resnet20": {"width": 2},
    "vit": {"width": 8, "depth": 2, "heads": 2, "patch": 2},
    "gpt": {"width": 8, "depth": 2, "heads": 2, "context": 6},
    "mlp": {"width": 8, "depth": 2},
}
CASES = [
    *(("resnet20", "feed-forward"), ("mlp", "feed-forward")),
    *((network, place) for network in ("vit", "gpt") for place in PLACES),
]


def run(network: str, neuron: str, place: str = "feed-forward", **changes: Any) -> RunConfig:
    sizes = SIZES[network] | {"place": place, "initialisation": "torch"} | changes
    return RunConfig(dataset="any", network=network, neuron=neuron, **sizes)


def built(network: str, neuron: str, place: str = "feed-forward", **changes: Any) -> nn.Module:
    shape = (6,) if network == "gpt" else (1, 8, 8)
    return build_network(run(network, neuron, place, **changes), shape, CLASSES)


def given(network: str) -> Tensor:
    random = torch.Generator().manual_seed(1)
    if network == "gpt":
        return torch.randint(CLASSES, (3, 6), generator=random)
    return torch.rand(3, 1, 8, 8, generator=random)


@pytest.mark.parametrize("neuron", neuron_names())
@pytest.mark.parametrize(("network", "place"), CASES)
def test_any_neuron_in_any_place_learns(network: str, place: str, neuron: str) -> None:
    config = run(network, neuron, place, lam=0.03)
    made = built(network, neuron, place, lam=0.03)
    logits = made(given(network))
    assert logits.shape == ((3, CLASSES, 6) if network == "gpt" else (3, CLASSES))
    logits.square().sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert made.head.weight.grad.abs().max() > 0
    layers = network_kind(network).hidden_layers(config)
    assert len(lam_layers(made)) in (0, layers)
    assert not neuron.startswith("implicit") or len(lam_layers(made)) == layers


@pytest.mark.parametrize(("network", "place"), CASES)
def test_at_lam_zero_it_is_the_standard_network(network: str, place: str) -> None:
    standard, implicit = (built(network, kind, place).eval() for kind in ("standard", "implicit"))
    assert torch.equal(standard(given(network)), implicit(given(network)))
    implicit = built(network, "implicit", place, lam=-0.2).eval()
    assert not torch.allclose(standard(given(network)), implicit(given(network)), atol=1e-5)


@pytest.mark.parametrize("neuron", neuron_names())
@pytest.mark.parametrize("place", PLACES)
def test_no_place_of_a_gpt_hears_a_later_one(place: str, neuron: str) -> None:
    made, text = built("gpt", neuron, place, lam=0.03, dtype="float64"), given("gpt")
    other = text.clone()
    other[:, 4:] = (other[:, 4:] + 1) % CLASSES
    before, after = made(text), made(other)
    # rows are solved with their neighbors, to a residual of about 1e-12 in double precision
    torch.testing.assert_close(before[..., :4], after[..., :4], atol=1e-9, rtol=0)
    assert not torch.allclose(before[..., 4], after[..., 4], atol=1e-6)


@pytest.mark.parametrize("network", SIZES)
def test_a_standard_one_is_converted_and_comes_back(network: str) -> None:
    standard, x = built(network, "standard").eval(), given(network)
    converted = ibnn.convert(standard, lam=-0.2)
    assert not torch.allclose(converted(x), standard(x), atol=1e-5)
    assert torch.equal(ibnn.standard(converted)(x), standard(x))


def test_the_cifar_network_has_twenty_layers_and_as_many_parameters_as_published() -> None:
    made = build_network(RunConfig(dataset="cifar10", network="resnet20"), (3, 32, 32), 10)
    layers = [m for m in made.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == 20
    # He et al. 2016, table 6: 0.27 million
    assert round(sum(p.numel() for p in made.parameters()) / 1e6, 2) == 0.27


def test_sizes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ConfigError, match="heads is 3, expected a divisor of width 8"):
        run("vit", "standard", heads=3)
    with pytest.raises(ConfigError, match="patch is 3, expected a divisor of the image's sides"):
        built("vit", "standard", patch=3)
    with pytest.raises(ConfigError, match="place is 'head', expected one of feed-forward"):
        run("gpt", "standard", place="head")
    with pytest.raises(ConfigError, match="expected one value or 10"):
        run("gpt", "implicit", place="both", lam=(0.1, 0.2))


def test_sizes_of_other_networks_leave_the_identity_alone() -> None:
    plain = RunConfig(dataset="digits")
    assert plain.replace(width=9, heads=2, place="both").identity() == plain.identity()
    vit = plain.replace(network="vit")
    assert vit.replace(width=32).identity() != vit.identity()
    assert vit.replace(layers=3, context=9).identity() == vit.identity()
