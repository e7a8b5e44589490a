"""The standard neuron: an affine map and nothing else."""

from torch import nn

from ibnn.lab.models.neurons.kind import Neuron, NeuronKind


class Standard(NeuronKind):
    name = "standard"
    about = "z = y"

    def conv2d(
        self, neuron: Neuron, layer: int, in_channels: int, out_channels: int, kernel: int
    ) -> nn.Conv2d:
        return nn.Conv2d(in_channels, out_channels, kernel)

    def linear(self, neuron: Neuron, layer: int, in_features: int, out_features: int) -> nn.Linear:
        return nn.Linear(in_features, out_features)
