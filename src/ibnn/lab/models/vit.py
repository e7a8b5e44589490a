"""A small vision transformer: patches of an image as tokens, their mean to the head."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.models.initialize import initialize as draw_weights
from ibnn.lab.models.neurons.kind import Neuron
from ibnn.lab.models.transformer import Positions, TransformerKind, blocks


class ViT(nn.Module):
    """Patches -> tokens -> blocks -> mean -> head.

    >>> network = ViT((3, 32, 32), 10, width=64, depth=4, heads=4, patch=4, neuron=Neuron())
    >>> sum(parameter.numel() for parameter in network.parameters())
    207946
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        classes: int,
        *,
        width: int,
        depth: int,
        heads: int,
        patch: int,
        neuron: Neuron,
        place: str = "feed-forward",
        initialisation: str = "torch",
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        channels, height, across = image_shape
        if height % patch or across % patch:
            raise ValueError(
                f"patch is {patch}, expected a divisor of the image's sides {height} and {across}"
            )
        with torch.random.fork_rng(devices=[]):
            self.patches = nn.Conv2d(channels, width, patch, stride=patch)
            self.positions = Positions((height // patch) * (across // patch), width)
            self.blocks = blocks(neuron, width, depth, heads, place, causal=False)
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, classes)
        draw_weights(self, self.head, initialisation, generator)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.positions(self.patches(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(self.blocks(tokens)).mean(1))


class ViTKind(TransformerKind):
    name = "vit"
    about = "a small vision transformer: patches as tokens, attention and feed-forward blocks"
    label = "ViT"
    makes = ViT
    fields = ("width", "depth", "heads", "patch", "place")
    sizes: ClassVar = {"width": 64, "depth": 4}
    recipe: ClassVar = {
        "optimizer": "adamw",
        "schedule": "cosine",
        "lr_warmup": 0.1,
        "lr_low": 1e-5,
        "lr_high": 1e-3,
        "weight_decay": 0.05,
        "augmentation": "crop-flip",
        "initialisation": "torch",
        "warmup_epochs": 0,
        "epochs": 100,
    }
