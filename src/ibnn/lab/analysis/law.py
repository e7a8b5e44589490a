"""The paper's law of curvature on networks of its own kind: made to fit it, and trained."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import ibnn
from ibnn.lab.analysis.curvature import curvature, gradient_norms
from ibnn.lab.analysis.one_hidden import OneHidden, squared_error
from ibnn.lab.training.seeds import generator

STRENGTHS = (-2.0, -1.0, -0.5, -0.2, 0.2, 0.5, 0.8)  # lam p


@dataclass(frozen=True)
class Ratio:
    """Implicit over standard at one lam, same weights: medians over examples."""

    network: str
    lam_slope: float
    curvature: float
    gradient: float


def ideal(inputs: int, slope: float, seed: int, pairs: int = 16) -> OneHidden:
    """A network for which every assumption holds, stated or not.

    Filters come in pairs m, -m (their mean is zero) and see few inputs each; pre-activations lie
    within 1/p of each other, far on the positive side of ReLU; scores are so small that both
    networks answer 1/2.
    """
    network = OneHidden(inputs, 2 * pairs, lam=0.0, slope=slope, sigma="hardtanh").double()
    draw = generator(seed, "ideal network")
    half = torch.randn(pairs, inputs, generator=draw, dtype=torch.float64)
    half = half * (torch.rand(half.shape, generator=draw) < max(0.1, 2 / inputs))
    half = half / half.abs().sum(1, keepdim=True).clamp_min(1e-9) * (0.04 / slope)
    with torch.no_grad():
        network.hidden.weight.copy_(torch.cat([half, -half]))
        network.hidden.bias.fill_(1.0)
        head = torch.randn(2 * pairs, generator=draw, dtype=torch.float64)
        network.head.weight.copy_(head.unsqueeze(0))
        network.head.bias.copy_(-head.sum())
    return network


def ratios(
    name: str, network: OneHidden, x: Tensor, y: Tensor, strengths: Sequence[float], seed: int
) -> list[Ratio]:
    """Curvature and gradient of the network at each lam p over those of its standard twin."""
    # in float64: where a network is sure of itself, curvatures are far below float32
    network, x, y = copy.deepcopy(network).double(), x.double(), y.double()
    twin = ibnn.standard(network)
    directions = 4
    standard = (
        curvature(_loss(twin), x, y, generator(seed, "signs"), directions=directions),
        gradient_norms(_loss(twin), x, y),
    )
    found = []
    for strength in strengths:
        moved = copy.deepcopy(network)
        hidden = moved.hidden
        assert isinstance(hidden, ibnn.Linear)
        hidden.lam.fill_(strength / float(hidden.slope))
        values = (
            curvature(_loss(moved), x, y, generator(seed, "signs"), directions=directions),
            gradient_norms(_loss(moved), x, y),
        )
        pairs = zip(values, standard, strict=True)
        share = [float((a / b.clamp_min(1e-300)).median()) for a, b in pairs]
        found.append(Ratio(name, strength, *share))
    return found


def _loss(network: torch.nn.Module):
    return lambda x, y: squared_error(network(x), y)
