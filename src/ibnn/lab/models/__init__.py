"""The networks of the experiments and the neurons they are made of.

`UCN` for images, `Perceptron` for points in the plane. Networks and kinds of neuron are found by
name in two registries, which take more of either from outside: `register_network`,
`register_neuron`.
"""

from ibnn.lab.models.initialize import initialize
from ibnn.lab.models.networks import (
    NetworkKind,
    network_kind,
    network_names,
    register_network,
)
from ibnn.lab.models.neuron import Neuron, implicit_layers, lam_layers
from ibnn.lab.models.neurons import (
    MapKind,
    NeuronKind,
    OwnLam,
    neuron_kind,
    neuron_names,
    register_neuron,
)
from ibnn.lab.models.perceptron import Perceptron, PerceptronKind
from ibnn.lab.models.ucn import UCN, UCNKind, kernel_side

register_network(UCNKind())
register_network(PerceptronKind())

__all__ = [
    "UCN",
    "MapKind",
    "NetworkKind",
    "Neuron",
    "NeuronKind",
    "OwnLam",
    "Perceptron",
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
