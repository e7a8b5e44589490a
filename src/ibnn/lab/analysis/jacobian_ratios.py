"""By how much an implicit layer or network stretches what its standard twin stretches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ibnn.lab.analysis.jacobian_norms import forward_product
from ibnn.lab.analysis.layers import LayerState

# What is compared. The first holds for every lam <= 0; the paper has the same inequality for the
# others, under the assumption that the activation is a similarity, which ReLU is not.
ALONE = "F alone"
SAME_MASK = "F, then ReLU with the same mask"
OWN_MASKS = "F, then ReLU"
NETWORK = "whole network"


@dataclass(frozen=True)
class Ratios:
    """|D IBNN dx| / |D SM dx|, an example each; NaN where both are zero."""

    what: str
    where: str  # the layer, or "network"
    direction: str
    values: Tensor

    def known(self) -> Tensor:
        """The values that are numbers (infinite where only the twin is at rest)."""
        return self.values[~self.values.isnan()]

    def holds(self) -> Tensor:
        """For which examples the inequality holds, up to rounding."""
        known = self.known()
        return known <= 1 + (1e-9 if known.dtype == torch.float64 else 1e-5)

    def share(self) -> float:
        """For how many, as a share."""
        return float(self.holds().double().mean()) if len(self.known()) else float("nan")


def directions(x: Tensor, generator: torch.Generator) -> Mapping[str, Tensor]:
    """Ways to move every example: at random, and towards another example."""
    random = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.dtype)
    other = x.roll(1, 0)
    return {"random": random, "to another image": other - x}


@torch.no_grad()
def layer_ratios(state: LayerState, moves: Mapping[str, Tensor]) -> list[Ratios]:
    """One layer at its own input: with and without the ReLU after it."""
    operator = state.operator()
    mask, twin_mask = state.z > 0, state.y > 0
    found = []
    for name, dx in moves.items():
        dy = state.affine(dx) - state.affine(torch.zeros_like(dx))  # A is affine
        dz = operator.restore(operator.inverse(operator.flatten(dy)))
        for what, ours, theirs in (
            (ALONE, dz, dy),
            (SAME_MASK, dz * mask, dy * mask),
            (OWN_MASKS, dz * mask, dy * twin_mask),
        ):
            found.append(Ratios(what, state.name, name, _ratio(ours, theirs)))
    return found


def network_ratios(
    network: nn.Module, twin: nn.Module, x: Tensor, moves: Mapping[str, Tensor]
) -> list[Ratios]:
    """The network against its twin at the same images."""
    return [
        Ratios(
            NETWORK,
            "network",
            name,
            _ratio(forward_product(network, x, dx), forward_product(twin, x, dx)),
        )
        for name, dx in moves.items()
    ]


@torch.no_grad()
def finite_ratios(
    state: LayerState, apply: Callable[[Tensor], Tensor] = torch.relu
) -> list[Ratios]:
    """The same between two images, not near one: F alone is a proximal operator for lam <= 0."""
    pairs = {
        ALONE: (state.z, state.y),
        OWN_MASKS: (apply(state.z), apply(state.y)),
    }
    return [
        Ratios(what, state.name, "between two images", _ratio(_steps(ours), _steps(theirs)))
        for what, (ours, theirs) in pairs.items()
    ]


@torch.no_grad()
def firmness(state: LayerState) -> Tensor:
    """<Fy - Fy', y - y'> / |Fy - Fy'|^2 for pairs of images: at least 1 for a proximal operator."""
    dz, dy = _steps(state.z).flatten(1), _steps(state.y).flatten(1)
    return (dz * dy).sum(1) / dz.square().sum(1).clamp_min(1e-300)


def _steps(x: Tensor) -> Tensor:
    return x - x.roll(1, 0)


def _ratio(ours: Tensor, theirs: Tensor) -> Tensor:
    return ours.flatten(1).norm(dim=1) / theirs.flatten(1).norm(dim=1)
