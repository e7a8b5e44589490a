"""Which assumptions of the paper's scaling of curvature hold on a layer."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ibnn.coupling import Uniform
from ibnn.lab.stats import percent_short
from ibnn.lab.theory_checks.layers import LayerState
from ibnn.lab.theory_checks.numerics.operator import CoupledRows

# what words of the paper are taken to mean
SMALL = 0.1  # "much less than 1"
MOST = 0.95  # "all"
EQUAL = 0.01  # "the same probability"


@dataclass(frozen=True)
class Assumption:
    """One of them, what was measured and whether that is good enough."""

    name: str
    measured: str
    holds: bool


def check(layer: LayerState, generator: torch.Generator) -> list[Assumption]:
    """The paper's assumptions about one hidden layer."""
    z = layer.z
    strength = float((layer.lam * layer.slope).abs().max())
    active = float((z > 0).float().mean())
    moved = float((z - layer.y).norm() / layer.y.norm().clamp_min(1e-30))
    near = pairs_within(layer.rows(layer.y * _per_channel(layer, layer.slope)), 1.0)
    mean = mean_filter(layer, generator)
    uniform = isinstance(layer.coupling, Uniform)
    linear = layer.sigma.name == "hardtanh"
    return [
        Assumption(
            "ReLU in its linear range", f"{percent_short(active)} of units active", active >= MOST
        ),
        Assumption("|λ| p ≪ 1", f"{strength:.3g}", strength <= SMALL),
        Assumption("F(y) ≈ y", f"moved by {percent_short(moved)}", moved <= SMALL),
        Assumption("sigma is piecewise linear", layer.sigma.name, linear),
        Assumption("|yₖ - yᵢ| < 1/p", f"{percent_short(near)} of pairs", near >= MOST),
        Assumption("uniform weights", "uniform" if uniform else str(layer.coupling), uniform),
        Assumption("mean filter ≪ filters", f"{mean:.2g} of their norm", mean <= SMALL),
    ]


def same_answer(standard: Tensor, implicit: Tensor) -> Assumption:
    """Not stated, but used: both networks give the same probability."""
    change = float((standard - implicit).abs().median())
    return Assumption("(unstated) same probability", f"median change {change:.2g}", change <= EQUAL)


def pairs_within(rows: Tensor, distance: float) -> float:
    """Fraction of the pairs i != k of a row closer than `distance`, without looking at every pair.

    >>> pairs_within(torch.tensor([[0.0, 0.5, 3.0]]), 1.0)
    0.3333333333333333
    """
    ordered = rows.sort(dim=1).values.contiguous()
    units = ordered.shape[1]
    if units < 2:
        return 1.0
    reach = torch.searchsorted(ordered, ordered + distance)  # the first that is not closer
    later = reach - torch.arange(1, units + 1)
    return float(later.clamp_min(0).sum()) / (len(rows) * units * (units - 1) / 2)


def mean_filter(layer: LayerState, generator: torch.Generator, directions: int = 64) -> float:
    """Norm of the mean of the units' filters over their root-mean-square norm.

    Filters are never written down: for random signs v, E (m . v)^2 = |m|^2, so what the affine map
    makes of a few of them gives both norms.
    """
    shape = (directions, *layer.x.shape[1:])
    signs = (2 * torch.randint(0, 2, shape, generator=generator) - 1).to(layer.x.dtype)
    with torch.no_grad():
        made = layer.affine(signs) - layer.affine(torch.zeros_like(signs[:1]))
    rows = CoupledRows(made.shape, layer.coupling).flatten(made)
    return float(rows.mean(1).square().mean().sqrt() / rows.square().mean().sqrt())


def _per_channel(layer: LayerState, value: Tensor) -> Tensor:
    """One number, or one per channel in front of the units' dims."""
    return value.reshape(*value.shape, *(1,) * len(layer.coupling.dims)) if value.ndim else value
