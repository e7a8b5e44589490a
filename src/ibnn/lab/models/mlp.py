"""MLP: fully connected hidden layers of equal width, each followed by a ReLU."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.models.initialize import initialize as draw_weights
from ibnn.lab.models.networks import NetworkKind
from ibnn.lab.models.neurons.kind import Neuron


class MLP(nn.Module):
    """`depth` hidden layers of `width` units and a head; images are flattened.

    >>> MLP(64, 10, width=32, depth=2, neuron=Neuron("implicit"))(torch.zeros(5, 1, 8, 8)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        inputs: int,
        classes: int,
        *,
        width: int,
        depth: int,
        neuron: Neuron,
        initialisation: str = "torch",
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        neuron = neuron.of_features()
        neuron.check_layers(depth)
        with torch.random.fork_rng(devices=[]):
            self.hidden = nn.Sequential(
                *(
                    nn.Sequential(
                        neuron.linear(layer, width if layer else inputs, width), nn.ReLU()
                    )
                    for layer in range(depth)
                )
            )
            self.head = nn.Linear(width, classes)
        draw_weights(self, self.head, initialisation, generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.hidden(x.flatten(1)))


class MLPKind(NetworkKind):
    name = "mlp"
    about = "fully connected hidden layers of equal width, ReLU, a linear head"
    makes = MLP
    fields = ("width", "depth")
    images = False
    sizes: ClassVar = {"width": 128, "depth": 2}
    recipe: ClassVar = {
        "optimizer": "adamw",
        "schedule": "cosine",
        "lr_low": 1e-5,
        "lr_high": 1e-3,
        "weight_decay": 0.01,
        "initialisation": "torch",
        "warmup_epochs": 0,
        "epochs": 30,
    }

    def ends(self, image_shape: Sequence[int], classes: int) -> dict[str, Any]:
        return {"inputs": math.prod(image_shape), "classes": classes}

    def title(self, config: Any) -> str:
        return f"MLP({self.size(config, 'depth')},{self.size(config, 'width')})"

    def hidden_layers(self, config: Any) -> int:
        return self.size(config, "depth")
