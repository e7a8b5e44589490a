"""A small GPT on characters: from every prefix of a piece of text, the next character."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.models.initialize import initialize as draw_weights
from ibnn.lab.models.neurons.kind import Neuron
from ibnn.lab.models.transformer import Positions, TransformerKind, blocks


class GPT(nn.Module):
    """Characters (N, T) by their numbers -> logits (N, characters, T) of the ones that follow.

    Pieces may be shorter than `context`; what a place is given depends on no later one.

    >>> network = GPT(23, context=64, width=64, depth=2, heads=4, neuron=Neuron("implicit"))
    >>> network(torch.zeros(5, 10, dtype=torch.int64)).shape
    torch.Size([5, 23, 10])
    """

    def __init__(
        self,
        characters: int,
        *,
        context: int,
        width: int,
        depth: int,
        heads: int,
        neuron: Neuron,
        place: str = "feed-forward",
        initialisation: str = "torch",
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            self.characters = nn.Embedding(characters, width)
            self.positions = Positions(context, width)
            self.blocks = blocks(neuron, width, depth, heads, place, causal=True)
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, characters)
        draw_weights(self, self.head, initialisation, generator)

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None) -> None:
        """The vectors of the characters: N(0, 0.02), as GPT-2 has it."""
        self.characters.weight.normal_(0.0, 0.02, generator=generator)

    def forward(self, ids: Tensor) -> Tensor:
        tokens = self.positions(self.characters(ids))
        return self.head(self.norm(self.blocks(tokens))).transpose(1, 2)


class GPTKind(TransformerKind):
    name = "gpt"
    about = "a small GPT on characters: causal attention and feed-forward blocks"
    label = "GPT"
    makes = GPT
    fields = ("width", "depth", "heads", "context", "place")
    images = False
    text = True
    sizes: ClassVar = {"width": 64, "depth": 4}
    recipe: ClassVar = {
        "optimizer": "adamw",
        "schedule": "cosine",
        "lr_warmup": 0.1,
        "lr_low": 1e-4,
        "lr_high": 1e-3,
        "weight_decay": 0.1,
        "initialisation": "torch",
        "warmup_epochs": 0,
        "batch_size": 32,
        "epochs": 5,
    }

    def ends(self, image_shape: Sequence[int], classes: int) -> dict[str, Any]:
        return {"characters": classes}
