"""What the ViT and the GPT are made of: attention and feed-forward blocks, any neuron in either."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ibnn.lab.models.networks import NetworkKind
from ibnn.lab.models.neurons.kind import Neuron

# Where the neuron is: how many layers of a block it makes.
PLACES = {"feed-forward": 1, "attention": 4, "both": 5}


class Attention(nn.Module):
    """Self-attention of several heads; queries, keys, values and output are four projections."""

    def __init__(self, neuron: Neuron, layer: int, width: int, heads: int, causal: bool):
        super().__init__()
        self.query, self.key, self.value, self.output = (
            neuron.linear(layer + number, width, width) for number in range(4)
        )
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        # written out: torch's fused attention has no second derivative on the processor
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        mixed = scores.softmax(-1) @ v
        return self.output(mixed.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)); four times as wide inside.

    The units of one token are one row: tokens interact through attention only.
    """

    def __init__(
        self, neuron: Neuron, layer: int, width: int, heads: int, place: str, *, causal: bool
    ):
        super().__init__()
        plain = Neuron()
        attends, feeds = (neuron if place in (name, "both") else plain for name in _PARTS)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(attends, layer, width, heads, causal)
        self.hidden = feeds.linear(layer + PLACES[place] - 1, width, 4 * width)
        self.back = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.back(F.gelu(self.hidden(self.norm2(x))))


_PARTS = ("attention", "feed-forward")


def blocks(
    neuron: Neuron, width: int, depth: int, heads: int, place: str, *, causal: bool
) -> nn.Sequential:
    """The blocks of a network; `place` is one of `PLACES`."""
    each, neuron = PLACES[place], neuron.of_features()
    neuron.check_layers(depth * each)
    return nn.Sequential(
        *(
            Block(neuron, each * number, width, heads, place, causal=causal)
            for number in range(depth)
        )
    )


class Positions(nn.Module):
    """A learnt vector for every place of a sequence, added to what stands there."""

    def __init__(self, length: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(length, width))

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None) -> None:
        """N(0, 0.02), as GPT-2 and ViT have it."""
        self.weight.normal_(0.0, 0.02, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight[: x.shape[-2]]


class TransformerKind(NetworkKind):
    """What a ViT and a GPT have in common as networks of a run."""

    label: ClassVar[str]
    tokens = True

    def check(self, config: Any) -> None:
        width = self.size(config, "width")
        if width % config.heads:
            raise ValueError(f"heads is {config.heads}, expected a divisor of width {width}")

    def growth(self, config: Any) -> float:
        return self.size(config, "depth") * self.size(config, "width")

    def title(self, config: Any) -> str:
        sizes = f"{self.label}({self.size(config, 'depth')},{self.size(config, 'width')})"
        usual = config.place == "feed-forward" or config.neuron == "standard"
        return sizes if usual else f"{sizes} in {config.place}"

    def hidden_layers(self, config: Any) -> int:
        return self.size(config, "depth") * PLACES[config.place]
