"""Convolutions of few channels: the compiled kernel computes what torch's convolution computes."""

import copy

import pytest
import torch
from torch import Tensor, nn

from ibnn.engine.native import loader
from ibnn.lab.models import UCN, few_channels
from ibnn.lab.models.few_channels import use_compiled_convolution, uses_compiled_convolution

pytestmark = pytest.mark.skipif(not loader.available(), reason="no compiled engine")

# (in, out, kernel, height, width): widths around whole lanes of eight and sixteen, kernels wider
# than a lane, odd heights, tiles of one to four channels and of one to five columns
SHAPES = (
    *((1, 3, (4, 4), 31, 31), (3, 3, (5, 5), 36, 36), (4, 4, (3, 3), 10, 10), (2, 7, (1, 1), 5, 9)),
    *(
        (1, 1, (9, 11), 12, 11),
        (5, 3, (2, 5), 7, 44),
        (1, 8, (4, 4), 31, 31),
        (16, 1, (3, 1), 9, 17),
        (2, 5, (3, 7), 8, 30),
        (3, 4, (6, 6), 20, 45),
    ),
)


def problem(shape: tuple, layout: torch.memory_format) -> tuple[nn.Conv2d, Tensor]:
    torch.manual_seed(0)
    inputs, outputs, kernel, height, width = shape
    layer = nn.Conv2d(inputs, outputs, kernel)
    return layer, torch.randn(17, inputs, height, width).contiguous(memory_format=layout)


def results(layer: nn.Conv2d, x: Tensor) -> list[Tensor]:
    """Output and gradients of a loss that is not linear in the output."""
    x = x.clone().requires_grad_()
    y = layer(x)
    gradients = torch.autograd.grad(y.square().sum(), (x, *layer.parameters()))
    return [y.detach(), *gradients]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_torchs_convolution_to_rounding(shape, layout):
    layer, x = problem(shape, layout)
    exact = results(copy.deepcopy(layer).double(), x.double())
    assert uses_compiled_convolution(use_compiled_convolution(layer))
    for ours, theirs in zip(results(layer, x), exact, strict=True):
        # a sum of n products of numbers near 1 in floats: some sqrt(n) 6e-8 of its largest terms
        torch.testing.assert_close(
            ours.double(), theirs, rtol=0, atol=3e-6 * float(theirs.abs().max())
        )


def test_its_gradients_can_be_differentiated():
    layer, x = problem(SHAPES[1], torch.contiguous_format)

    def curvature(layer: nn.Conv2d, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), layer.weight)[0]

    exact = curvature(copy.deepcopy(layer).double(), x.double())
    ours = curvature(use_compiled_convolution(layer), x).double()
    torch.testing.assert_close(ours, exact, rtol=0, atol=3e-5 * float(exact.abs().max()))


def test_the_default_dtype_does_not_matter():
    layer, x = problem(SHAPES[1], torch.contiguous_format)
    expected = results(use_compiled_convolution(layer), x)
    torch.set_default_dtype(torch.float64)
    try:
        found = results(layer, x)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_only_what_needs_a_gradient_gets_one():
    layer, x = problem(SHAPES[1], torch.contiguous_format)
    use_compiled_convolution(layer)
    layer.weight.requires_grad_(False)
    x.requires_grad_()
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert x.grad is not None


def test_other_calls_go_to_torch():
    layer, x = problem(SHAPES[1], torch.contiguous_format)
    plain = copy.deepcopy(layer)
    use_compiled_convolution(layer)
    batched = torch.func.vmap(lambda one: layer(one[None]))(x)
    torch.testing.assert_close(batched[:, 0], plain(x))
    doubled = layer.double()(x.double())
    torch.testing.assert_close(doubled, plain.double()(x.double()), rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="channels"):
        layer.float()(x[:, :2])
    with pytest.raises(RuntimeError, match=r"[Kk]ernel size"):
        layer(x[..., :3])


def test_other_layers_are_left_alone():
    layers = (
        nn.Conv2d(3, 3, 3, stride=2),
        nn.Conv2d(3, 3, 3, padding=1),
        nn.Conv2d(3, 3, 3, groups=3),
        nn.Conv2d(3, 3, 3, dilation=2),
        nn.Conv2d(few_channels.MOST, 2, 3),
    )
    assert not any(uses_compiled_convolution(use_compiled_convolution(layer)) for layer in layers)


def test_a_row_of_images_is_the_same_alone():
    layer, x = problem(SHAPES[0], torch.contiguous_format)
    use_compiled_convolution(layer)
    assert torch.equal(layer(x)[2:3], layer(x[2:3]))


@pytest.mark.parametrize("neuron", ["standard", "implicit", "mean-field"])
def test_a_network_computes_the_same(neuron):
    network = UCN((3, 12, 12), 10, 2, 3, neuron, lam=0.05, initialisation="torch")
    images = torch.rand(4, 3, 12, 12)
    before = network(images)
    use_compiled_convolution(network)
    assert [uses_compiled_convolution(block.conv) for block in network.blocks] == [True, True]
    # rounding errors of 1e-7, which batch norm and a solve at half of the threshold amplify
    torch.testing.assert_close(network(images), before, rtol=0, atol=2e-5)
