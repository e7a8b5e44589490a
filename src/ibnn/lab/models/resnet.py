"""ResNet-20 for small images (He et al. 2016): three stages of three residual blocks."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ibnn.lab.models.initialize import initialize as draw_weights
from ibnn.lab.models.networks import NetworkKind
from ibnn.lab.models.neurons.kind import Neuron

BLOCKS = 3  # of each stage: 1 + 2 * 3 * BLOCKS convolutions and the head are 20 layers
CONVOLUTIONS = 1 + 6 * BLOCKS


class Residual(nn.Module):
    """Two convolutions, each then its neuron, batch norm and ReLU, around a shortcut.

    Where the map shrinks and channels double, the shortcut takes every second unit and fills the
    new channels with zeros: it has no parameters ("option A" of the paper).
    """

    def __init__(self, neuron: Neuron, layer: int, in_channels: int, channels: int, stride: int):
        super().__init__()
        same = {"padding": 1, "bias": False}
        self.conv1 = neuron.conv2d(layer, in_channels, channels, 3, stride=stride, **same)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = neuron.conv2d(layer + 1, channels, channels, 3, **same)
        self.norm2 = nn.BatchNorm2d(channels)
        self.stride, self.added = stride, channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        return torch.relu(h + F.pad(shortcut, (0, 0, 0, 0, 0, self.added)))


class ResNet20(nn.Module):
    """The CIFAR network of 20 layers, with any kind of neuron in its 19 convolutions.

    >>> network = ResNet20((3, 32, 32), 10, width=16, neuron=Neuron())
    >>> sum(parameter.numel() for parameter in network.parameters())
    269722
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        classes: int,
        *,
        width: int,
        neuron: Neuron,
        initialisation: str = "torch",
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        neuron.check_layers(CONVOLUTIONS)
        with torch.random.fork_rng(devices=[]):
            self.conv = neuron.conv2d(0, image_shape[0], width, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(width)
            blocks, channels = [], width
            for number in range(3 * BLOCKS):
                out = width * 2 ** (number // BLOCKS)
                stride = 2 if out > channels else 1
                blocks.append(Residual(neuron, 1 + 2 * number, channels, out, stride))
                channels = out
            self.blocks = nn.Sequential(*blocks)
            self.head = nn.Linear(channels, classes)
        draw_weights(self, self.head, initialisation, generator)

    def forward(self, x: Tensor) -> Tensor:
        h = self.blocks(torch.relu(self.norm(self.conv(x))))
        return self.head(h.mean((2, 3)))


class ResNet20Kind(NetworkKind):
    name = "resnet20"
    about = "three stages of three residual blocks, 19 convolutions and a linear head"
    makes = ResNet20
    fields = ("width",)
    sizes: ClassVar = {"width": 16}
    # He et al. with the cosine that has taken the place of their steps
    recipe: ClassVar = {
        "optimizer": "sgd",
        "schedule": "cosine",
        "lr_low": 1e-4,
        "lr_high": 0.1,
        "weight_decay": 1e-4,
        "augmentation": "crop-flip",
        "initialisation": "torch",
        "warmup_epochs": 0,
        "clip": None,
        "epochs": 100,
    }

    def title(self, config: Any) -> str:
        width = self.size(config, "width")
        return "ResNet-20" + (f" of width {width}" if width != self.sizes["width"] else "")

    def hidden_layers(self, config: Any) -> int:
        return CONVOLUTIONS
