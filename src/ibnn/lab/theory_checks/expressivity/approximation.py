"""How well a function of the plane is approximated against width, by both neurons."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ibnn.lab.theory_checks.expressivity.universal import (
    close_up,
    compose,
    example,
    fit,
    output,
    random_units,
)
from ibnn.lab.theory_checks.one_hidden import HiddenLayer
from ibnn.lab.training.seeds import generator

SIDE = 33  # points per side of the grid that is fitted
SCALE = 1e-4  # of the close-up: sigma bends by (p * SCALE)^2 / 3


@dataclass(frozen=True)
class Approximation:
    """One approximation: the largest and the root-mean-square error on points between the grid's.

    `construction` is "standard", "implicit", "close-up" (implicit, built from the standard one) or
    "composed" (the paper's, whose width counts both layers).
    """

    construction: str
    lam: float | None
    width: int
    seed: int
    largest: float
    rms: float


def errors(
    lams: Sequence[float], widths: Sequence[int], seeds: Sequence[int], slope: float = 10.0
) -> Iterator[Approximation]:
    """Every approximation of `example`: units drawn at random, outputs by least squares."""
    x, between = _grid(SIDE)
    wanted, truth = example(x), example(between)

    def measure(
        construction: str,
        lam: float | None,
        size: tuple[int, int],
        layer: Callable[[Tensor], Tensor],
        head: Tensor,
        dtype: torch.dtype = torch.float32,
    ) -> Approximation:
        error = output(layer(between.to(dtype)), head) - truth
        largest, rms = float(error.abs().max()), float(error.square().mean().sqrt())
        return Approximation(construction, lam, *size, largest, rms)

    for seed in seeds:
        for width in widths:
            size, draw = (width, seed), generator(seed, "random units", width)
            units = random_units(2, width, draw, dtype=torch.float32)
            head = fit(units(x), wanted)
            yield measure("standard", None, size, units, head)
            smooth = random_units(2, width // 2, draw, F.softplus, torch.float32)
            features = smooth(x)
            goal = output(features, fit(features, wanted))
            for lam in lams:
                layer = HiddenLayer(units.weight, units.bias, lam, slope)
                yield measure("implicit", lam, size, layer, fit(layer(x), wanted))
                exact = HiddenLayer(units.weight.double(), units.bias.double())
                built = close_up(exact, lam, slope, SCALE)
                scaled = torch.cat([head[:-1] / SCALE, head[-1:]])
                yield measure("close-up", lam, size, built, scaled, torch.float64)
                both = compose(smooth, lam, x, width - width // 2, draw)
                yield measure("composed", lam, size, both, fit(both.after(both.image), goal))


def _grid(side: int) -> tuple[Tensor, Tensor]:
    """Points of a grid over the square, and the middles of its cells."""
    axis = torch.linspace(-1, 1, side)
    middles = (axis[1:] + axis[:-1]) / 2
    return _product(axis), _product(middles)


def _product(axis: Tensor) -> Tensor:
    return torch.cartesian_prod(axis, axis)
