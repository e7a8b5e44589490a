"""The first weights: the published runs' tiny normal numbers, or PyTorch's own default."""

import math

import torch
from torch import nn

KINDS = ("paper", "torch")
HIDDEN_STD = 1e-3
HEAD_STD = 5e-4


@torch.no_grad()
def initialize(
    network: nn.Module, head: nn.Linear, kind: str, generator: torch.Generator | None
) -> None:
    """Draw weights and biases of every convolution and linear map, in order, from `generator`.

    `"paper"`: N(0, 1e-3) for hidden layers and N(0, 5e-4) for the head (standard deviations),
    so pre-activations start near zero. `"torch"`: uniform within 1/sqrt(fan-in). Every kind of
    neuron makes the same draws, hence the same network for the same seed; what a kind draws for
    itself (modules with a method `draw`) comes last.
    """
    if kind not in KINDS:
        raise ValueError(f"initialisation is {kind!r}, expected one of {', '.join(KINDS)}")
    for layer in network.modules():
        if not isinstance(layer, nn.Conv2d | nn.Linear):
            continue
        bound = 1 / math.sqrt(layer.weight[0].numel())
        std = HEAD_STD if layer is head else HIDDEN_STD
        for parameter in (layer.weight, layer.bias):
            if parameter is None:
                continue
            if kind == "paper":
                parameter.normal_(0.0, std, generator=generator)
            else:
                parameter.uniform_(-bound, bound, generator=generator)
    for module in network.modules():
        draw = getattr(module, "draw", None)
        if callable(draw):
            draw(generator)
