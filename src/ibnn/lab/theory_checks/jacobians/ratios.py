"""By how much an implicit layer or network stretches what the standard one stretches."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ibnn.lab.theory_checks.jacobians.norms import forward_product
from ibnn.lab.theory_checks.layers import LayerState

# What is compared. The paper has one inequality for all, under the assumption that the activation
# is a similarity, which ReLU is not.
ALONE = "F alone"
SAME_MASK = "F, then ReLU with the same mask"
OWN_MASKS = "F, then ReLU"
NETWORK = "whole network"
# a ratio of 1 may come out this much larger: the solve promises 1e-10 and 1e-5 of z
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-5}


@dataclass(frozen=True)
class Ratios:
    """|D IBNN dx| / |D SM dx|, an example each; NaN where both are zero."""

    what: str
    where: str  # the layer, or "network"
    direction: str
    values: Tensor

    def known(self) -> Tensor:
        """The values that are numbers (infinite where only the standard one is at rest)."""
        return self.values[~self.values.isnan()]

    def holds(self) -> Tensor:
        """For which examples the inequality holds, up to rounding."""
        known = self.known()
        return known <= 1 + ROUNDING[known.dtype]

    def fraction(self) -> float:
        """Of the examples for which it holds."""
        return float(self.holds().double().mean()) if len(self.known()) else float("nan")


def directions(x: Tensor, generator: torch.Generator) -> Mapping[str, Tensor]:
    """Ways to move every example: at random, and towards another example."""
    random = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.dtype).to(x.device)
    return {"random": random, "to another image": x.roll(1, 0) - x}


@torch.no_grad()
def layer_ratios(state: LayerState, moves: Mapping[str, Tensor]) -> list[Ratios]:
    """One layer at its own input: with and without a ReLU after it."""
    operator = state.operator()
    mask, standard_mask = state.z > 0, state.y > 0
    found = []
    for name, dx in moves.items():
        dy = state.affine(dx) - state.affine(torch.zeros_like(dx))  # A is affine
        dz = operator.restore(operator.inverse(operator.flatten(dy)))
        for what, ours, theirs in (
            (ALONE, dz, dy),
            (SAME_MASK, dz * mask, dy * mask),
            (OWN_MASKS, dz * mask, dy * standard_mask),
        ):
            found.append(Ratios(what, state.name, name, _ratio(ours, theirs)))
    return found


def network_ratios(
    network: nn.Module, standard: nn.Module, x: Tensor, moves: Mapping[str, Tensor]
) -> list[Ratios]:
    """The network against the standard one at the same images."""
    return [
        Ratios(
            NETWORK,
            "network",
            name,
            _ratio(forward_product(network, x, dx), forward_product(standard, x, dx)),
        )
        for name, dx in moves.items()
    ]


@torch.no_grad()
def finite_ratios(state: LayerState) -> list[Ratios]:
    """The same between two images, not near one: F alone is a proximal operator for lam <= 0."""
    pairs = {
        ALONE: (state.z, state.y),
        OWN_MASKS: (torch.relu(state.z), torch.relu(state.y)),
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
    return (ours.flatten(1).norm(dim=1) / theirs.flatten(1).norm(dim=1)).cpu()
