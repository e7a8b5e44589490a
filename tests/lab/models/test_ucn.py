"""The image network: its size, its padding, and one set of weights for both neurons."""

from typing import Any

import pytest
import torch
from torch import nn

from ibnn.lab.models import UCN, implicit_layers, kernel_side


def count(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("shape", "layers", "channels", "neuron", "expected"),
    [
        ((1, 28, 28), 1, 3, "implicit", 23_588),
        ((3, 32, 32), 2, 3, "implicit", 31_200),
        ((3, 32, 32), 2, 3, "standard", 31_198),
        ((3, 32, 32), 3, 8, "standard", 85_802),
    ],
)
def test_parameter_counts_are_the_papers(shape, layers, channels, neuron, expected):
    assert count(UCN(shape, 10, layers, channels, neuron)) == expected


def test_a_fixed_lam_and_a_learnt_slope_change_the_count_by_one_per_layer():
    standard = count(UCN((1, 8, 8), 10, 2, 3))
    assert count(UCN((1, 8, 8), 10, 2, 3, "implicit", learn_lam=False)) == standard
    assert count(UCN((1, 8, 8), 10, 2, 3, "implicit", learn_slope=True)) == standard + 4


@pytest.mark.parametrize(("side", "kernel"), [(28, 4), (32, 5), (8, 1), (2, 1)])
def test_the_kernel_is_fifteen_percent_of_the_side(side, kernel):
    assert kernel_side(side) == kernel


@pytest.mark.parametrize("side", [28, 32])
def test_padding_keeps_the_size_with_the_odd_row_right_and_below(side):
    network = UCN((1, side, side), 10, 1, 1)
    block: Any = network.blocks[0]
    x = torch.rand(2, 1, side, side)
    kernel = kernel_side(side)
    low, high = (kernel - 1) // 2, kernel // 2
    assert high - low == (kernel % 2 == 0)
    padded = torch.zeros(2, 1, side + kernel - 1, side + kernel - 1)
    padded[:, :, low : low + side, low : low + side] = x
    weight = block.conv.weight.detach()[0, 0]
    expected = (padded[1, 0, 5 : 5 + kernel, 9 : 9 + kernel] * weight).sum()
    found = block.conv(nn.functional.pad(x, block.padding)).detach()
    assert found.shape == x.shape
    # one sum of at most 25 products, each rounded to float32
    torch.testing.assert_close(found[1, 0, 5, 9], expected + block.conv.bias.detach()[0])


@pytest.mark.parametrize("initialisation", ["paper", "torch"])
def test_both_neurons_start_from_the_same_weights(initialisation):
    def make(neuron: str) -> UCN:
        generator = torch.Generator().manual_seed(5)
        return UCN(
            (1, 28, 28), 10, 2, 3, neuron, initialisation=initialisation, generator=generator
        )

    standard, implicit = make("standard"), make("implicit")
    for name, value in standard.state_dict().items():
        assert torch.equal(value, implicit.state_dict()[name]), name


def test_lam_zero_computes_what_the_standard_network_computes():
    standard = UCN((1, 28, 28), 10, 2, 3)
    implicit = UCN((1, 28, 28), 10, 2, 3, "implicit", lam=0.0)
    incompatible = implicit.load_state_dict(standard.state_dict(), strict=False)
    assert not incompatible.unexpected_keys
    assert set(incompatible.missing_keys) == {"blocks.0.conv.lam", "blocks.1.conv.lam"}
    x = torch.rand(4, 1, 28, 28)
    assert torch.equal(standard.eval()(x), implicit.eval()(x))


def test_paper_initialisation_has_the_papers_spread():
    network = UCN((3, 32, 32), 10, 2, 64, generator=torch.Generator().manual_seed(0))
    # standard error of a sample std is std / sqrt(2 n): 1 % at n = 4800, so 5 % is five of them
    block: Any = network.blocks[0]
    assert block.conv.weight.std().item() == pytest.approx(1e-3, rel=0.05)
    assert network.head.weight.std().item() == pytest.approx(5e-4, rel=0.05)


def test_building_a_network_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    UCN((1, 8, 8), 10, 1, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.random.get_rng_state())


def test_one_lam_per_layer():
    network = UCN((1, 8, 8), 10, 2, 2, "implicit", lam=(-0.1, 0.05), learn_lam=False)
    found = [float(layer.effective_lam) for layer in implicit_layers(network)]
    assert found == pytest.approx([-0.1, 0.05])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"neuron": "spiking"}, "neuron is 'spiking', expected one of standard, implicit"),
        ({"image_shape": (8, 8)}, r"image_shape is \(8, 8\), expected \(channels, height, width\)"),
        ({"channels": 0}, "channels is 0, expected at least 1"),
        ({"initialisation": "zeros"}, "initialisation is 'zeros', expected one of paper, torch"),
        ({"neuron": "implicit", "lam": (0.1,)}, "lam has 1 values, expected one or 2"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {"image_shape": (1, 8, 8), "classes": 10, "layers": 2, "channels": 2, **change}
    with pytest.raises(ValueError, match=message):
        UCN(**arguments)
