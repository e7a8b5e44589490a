"""The network of the 2-D figure: one hidden layer, ReLU, batch normalization, one output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ibnn.lab.models.initialize import initialize as draw_weights
from ibnn.lab.models.networks import NetworkKind
from ibnn.lab.models.neurons.kind import Neuron


class Perceptron(nn.Module):
    """One hidden layer of any kind of neuron; the units of an implicit one are all coupled.

    With `outputs=1` the single output is the logit of the second of two classes.

    >>> network = Perceptron(2, 3, 1)
    >>> network(torch.zeros(5, 2)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        inputs: int = 2,
        hidden: int = 3,
        outputs: int = 1,
        neuron: str | Neuron = "standard",
        *,
        lam: float | list[float] | tuple[float, ...] = 0.0,
        slope: float = 10.0,
        learn_lam: bool = True,
        learn_slope: bool = False,
        bounded: bool = True,
        coupling: Any = None,
        sigma: str = "tanh",
        initialisation: str = "torch",
        generator: torch.Generator | None = None,
        **solve: Any,
    ):
        super().__init__()
        for name, value in (("inputs", inputs), ("hidden", hidden), ("outputs", outputs)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected at least 1")
        if isinstance(neuron, str):
            neuron = Neuron(
                neuron, lam, slope, learn_lam, learn_slope, bounded, coupling, sigma, solve
            )
        else:  # names of couplings are for convolutions; here all units of the layer are one row
            neuron = neuron.of_features()
        neuron.check_layers(1)
        with torch.random.fork_rng(devices=[]):
            self.hidden = neuron.linear(0, inputs, hidden)
            self.norm = nn.BatchNorm1d(hidden)
            self.head = nn.Linear(hidden, outputs)
        draw_weights(self, self.head, initialisation, generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(torch.relu(self.hidden(x.flatten(1)))))


class PerceptronKind(NetworkKind):
    name = "perceptron"
    about = "one hidden layer, fully connected; two classes share one output"
    makes = Perceptron
    fields = ("hidden",)
    images = False

    def ends(self, image_shape: Sequence[int], classes: int) -> dict[str, Any]:
        return {"inputs": math.prod(image_shape), "outputs": 1 if classes == 2 else classes}

    def title(self, config: Any) -> str:
        return f"perceptron({config.hidden})"
