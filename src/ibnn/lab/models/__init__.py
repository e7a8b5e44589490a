"""The networks of the experiments and the neurons they are made of.

`UCN` for images, `Perceptron` for points in the plane: the paper's. `ResNet20`, `ViT`, `GPT` and
`MLP`: what people use. Networks and kinds of neuron are found by name in two registries, which take
more of either from outside: `register_network`, `register_neuron`.
"""

from ibnn.lab.models.gpt import GPT, GPTKind
from ibnn.lab.models.initialize import initialize
from ibnn.lab.models.layers import implicit_layers, lam_layers
from ibnn.lab.models.mlp import MLP, MLPKind
from ibnn.lab.models.networks import (
    NetworkKind,
    network_kind,
    network_names,
    register_network,
)
from ibnn.lab.models.neurons import (
    MapKind,
    Neuron,
    NeuronKind,
    OwnLam,
    neuron_kind,
    neuron_names,
    register_neuron,
)
from ibnn.lab.models.perceptron import Perceptron, PerceptronKind
from ibnn.lab.models.resnet import ResNet20, ResNet20Kind
from ibnn.lab.models.ucn import UCN, UCNKind, kernel_side
from ibnn.lab.models.vit import ViT, ViTKind

for _kind in (UCNKind, PerceptronKind, ResNet20Kind, ViTKind, GPTKind, MLPKind):
    register_network(_kind())

__all__ = [
    "GPT",
    "MLP",
    "UCN",
    "MapKind",
    "NetworkKind",
    "Neuron",
    "NeuronKind",
    "OwnLam",
    "Perceptron",
    "ResNet20",
    "ViT",
    "implicit_layers",
    "initialise",
    "initialize",
    "kernel_side",
    "lam_layers",
    "network_kind",
    "network_names",
    "neuron_kind",
    "neuron_names",
    "register_network",
    "register_neuron",
]

initialise = initialize  # its name in 0.1
