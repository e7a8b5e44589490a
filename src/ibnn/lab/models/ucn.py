"""UCN(L, C): L uniform convolutional blocks of C channels, no pooling, one linear head."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ibnn
from ibnn.lab.models.few_channels import uses_compiled_convolution
from ibnn.lab.models.initialize import initialize as draw_weights
from ibnn.lab.models.networks import NetworkKind
from ibnn.lab.models.neurons.kind import Neuron


def kernel_side(image_side: int) -> int:
    """The paper's kernel: 15 % of the image side (28 -> 4, 32 -> 5), at least 1."""
    return max(1, round(0.15 * image_side))


class Block(nn.Module):
    """Convolution -> implicit bias -> ReLU -> batch normalization; the image keeps its size."""

    def __init__(self, neuron: Neuron, layer: int, in_channels: int, channels: int, kernel: int):
        super().__init__()
        # An even kernel needs one more zero on one side: right and bottom, as published.
        before, after = (kernel - 1) // 2, kernel // 2
        self.padding = (before, after, before, after)
        self.conv = neuron.conv2d(layer, in_channels, channels, kernel)
        if isinstance(self.conv, ibnn.ImplicitLayer):
            # A map is solved as a contiguous row, and `forward` wants it so; channels are not.
            self.conv.keeps_memory_format = tuple(self.conv.coupling.dims) != (-2, -1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, self.padding)
        # With three channels torch's convolution is about twice as fast channels last, forward
        # and back (0.5 of the time at 3 -> 3, k = 5, and never slower). What follows is in one
        # layout, so that both neurons make the same rounding errors in batch norm.
        if not uses_compiled_convolution(self.conv):
            x = x.contiguous(memory_format=torch.channels_last)
        return self.norm(torch.relu(self.conv(x).contiguous()))


class UCN(nn.Module):
    """The paper's image network, made of any registered kind of neuron.

    Convolutions, batch norms and head have the same names for every kind; the implicit one adds
    `lam` (and `slope` when learnt) to each convolution, so the weights of one load into the other
    with `strict=False`.

    Args:
        image_shape: channels, height, width.
        neuron: the name of a kind, see `ibnn.lab.models.neurons`; or a `Neuron`, which has its own
            settings.
        lam: one value for all layers or one per layer.
        initialisation: `"paper"` or `"torch"`, see `initialize`.
        generator: the source of the first weights; torch's global one when absent.
        solve: further keywords of `ibnn.Conv2d` (`solver`, `adjoint`, `atol`, ...).

    >>> network = UCN((1, 28, 28), classes=10, layers=1, channels=3)
    >>> sum(parameter.numel() for parameter in network.parameters())
    23587
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        classes: int,
        layers: int,
        channels: int,
        neuron: str | Neuron = "standard",
        *,
        lam: float | Sequence[float] = 0.0,
        slope: float = 10.0,
        learn_lam: bool = True,
        learn_slope: bool = False,
        bounded: bool = True,
        coupling: Any = "space",
        sigma: str = "tanh",
        initialisation: str = "paper",
        generator: torch.Generator | None = None,
        **solve: Any,
    ):
        super().__init__()
        if len(image_shape) != 3:
            raise ValueError(
                f"image_shape is {tuple(image_shape)}, expected (channels, height, width)"
            )
        for name, value in (("classes", classes), ("layers", layers), ("channels", channels)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected at least 1")
        if isinstance(neuron, str):
            neuron = Neuron(
                neuron, lam, slope, learn_lam, learn_slope, bounded, coupling, sigma, solve
            )
        neuron.check_layers(layers)
        in_channels, height, width = image_shape
        kernel = kernel_side(min(height, width))
        # Constructors draw weights from the global generator; ours are drawn below.
        with torch.random.fork_rng(devices=[]):
            self.blocks = nn.Sequential(
                *(
                    Block(neuron, layer, channels if layer else in_channels, channels, kernel)
                    for layer in range(layers)
                )
            )
            self.head = nn.Linear(channels * height * width, classes)
        draw_weights(self, self.head, initialisation, generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x).flatten(1))


class UCNKind(NetworkKind):
    name = "ucn"
    about = "L convolutional blocks of C channels, no pooling, one linear head: the paper's"
    makes = UCN
    fields = ("layers", "channels")

    def title(self, config: Any) -> str:
        return f"UCN({config.layers},{config.channels})"

    def hidden_layers(self, config: Any) -> int:
        return config.layers
