"""Neurons without an equation: an affine layer followed by an explicit map y -> z.

A map sees (images, channels, *map), whatever made y. The units of a fully connected layer are
one channel's map, or one unit per channel where the map mixes channels.
"""

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from ibnn.lab.models.neurons.kind import Neuron, NeuronKind


class FollowedConv2d(nn.Conv2d):
    """`nn.Conv2d`, then the map `then`."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, then: nn.Module):
        super().__init__(in_channels, out_channels, kernel_size)
        self.then = then

    def forward(self, input: Tensor) -> Tensor:
        return self.then(super().forward(input))


class FollowedLinear(nn.Linear):
    """`nn.Linear`, then the map `then`; with `across` each unit is a channel of its own."""

    def __init__(self, in_features: int, out_features: int, then: nn.Module, across: bool):
        super().__init__(in_features, out_features)
        self.then, self.across = then, across

    def forward(self, input: Tensor) -> Tensor:
        dim = -1 if self.across else -2
        y = super().forward(input)
        # every token of a sequence for itself, as every image
        rows = y.flatten(0, -2) if y.ndim > 2 else y
        return self.then(rows.unsqueeze(dim)).squeeze(dim).view(y.shape)


class MapKind(NeuronKind):
    """A kind given by its map alone. `across`: the map mixes channels."""

    across: ClassVar[bool] = False
    makes: ClassVar[Callable[..., nn.Module]]  # the map, where it has no settings

    def then(self, neuron: Neuron, layer: int, channels: int) -> nn.Module:
        """The map y -> z of hidden layer number `layer`.

        If it has parameters that start from random numbers, it draws them in `draw(generator)`.
        """
        return self.makes()

    def conv2d(
        self, neuron: Neuron, layer: int, in_channels: int, out_channels: int, kernel: int
    ) -> nn.Conv2d:
        then = self.then(neuron, layer, out_channels)
        return FollowedConv2d(in_channels, out_channels, kernel, then)

    def linear(self, neuron: Neuron, layer: int, in_features: int, out_features: int) -> nn.Linear:
        then = self.then(neuron, layer, out_features if self.across else 1)
        return FollowedLinear(in_features, out_features, then, self.across)


def map_dims(y: Tensor) -> tuple[int, ...]:
    """The dims of a channel's map: all after images and channels."""
    return tuple(range(2, y.ndim))


def moments(y: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Mean and variance (divided by the number of units) over `dims`, which are kept."""
    mean = y.mean(dims, keepdim=True)
    return mean, (y - mean).square().mean(dims, keepdim=True)
