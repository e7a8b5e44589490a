"""The networks of the experiments: `UCN` for images, `Perceptron` for points in the plane."""

from ibnn.lab.models.initialise import initialise
from ibnn.lab.models.neuron import Neuron, implicit_layers
from ibnn.lab.models.perceptron import Perceptron
from ibnn.lab.models.ucn import UCN, kernel_side

__all__ = ["UCN", "Neuron", "Perceptron", "implicit_layers", "initialise", "kernel_side"]
