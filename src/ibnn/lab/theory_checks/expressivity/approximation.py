"""How well a function of the plane is approximated against width, by both neurons.

The paper's construction: an implicit layer, then standard neurons that undo it (H = L o phi^-1) and
approximate on its image. A shorter one, with a single hidden layer of implicit neurons: seen from
close up sigma is linear, so F is an invertible matrix that M can undo (`close_up`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ibnn.lab.theory_checks.one_hidden import HiddenLayer
from ibnn.lab.training.seeds import generator

Function = Callable[[Tensor], Tensor]


SIDE = 33  # points per side of the grid that is fitted
SCALE = 1e-4  # of the close-up: sigma bends by (p * SCALE)^2 / 3


def close_up(
    standard: HiddenLayer, lam: float, slope: float = 10.0, scale: float = 1e-3
) -> HiddenLayer:
    """Implicit ReLU units, as many as the standard ones, whose output is `scale` times theirs.

    Where p |y| is small, F is the matrix mean + (I - mean) / (1 - lam p). Its inverse is put into M
    and b; what is left is of third order in p * scale, so the output divided by `scale` tends to
    the standard layer's: one hidden layer of implicit neurons is as universal as one of standard
    ones, at equal width. ReLU forgives the scale because it is positively homogeneous.
    """

    def undo(rows: Tensor) -> Tensor:
        mean = rows.mean(0, keepdim=True)
        return mean + (rows - mean) * (1 - lam * slope)

    weight, bias = undo(scale * standard.weight), undo(scale * standard.bias.unsqueeze(1))
    return HiddenLayer(weight, bias.squeeze(1), lam, slope, standard.phi)


def random_units(
    inputs: int,
    count: int,
    generator: torch.Generator,
    phi: Function = torch.relu,
    dtype: torch.dtype = torch.float64,
) -> HiddenLayer:
    """Standard units whose kinks lie all over the square [-1, 1]^2 (or a ball like it)."""
    direction = torch.randn(count, inputs, generator=generator, dtype=dtype)
    direction = direction / direction.norm(dim=1, keepdim=True)
    offset = math.sqrt(2) * (2 * torch.rand(count, generator=generator, dtype=dtype) - 1)
    return HiddenLayer(direction, offset, phi=phi)


def fit(features: Tensor, values: Tensor) -> Tensor:
    """The best linear output (the last weight is the constant's), by least squares."""
    features = features.double()
    columns = torch.cat([features, features.new_ones(len(features), 1)], dim=1)
    # units of close kinks are nearly equal: directions below float32's rounding are let go
    found = torch.linalg.lstsq(columns, values.double().unsqueeze(1), rcond=1e-6, driver="gelsd")
    return found.solution


def output(features: Tensor, head: Tensor) -> Tensor:
    """What a head from `fit` makes of features."""
    return (features.double() @ head[:-1] + head[-1]).squeeze(1)


@dataclass(frozen=True)
class Composed:
    """The paper's construction: implicit layer, standard layer on its image, linear output."""

    first: HiddenLayer
    second: HiddenLayer
    image: Tensor  # V: what the implicit layer makes of the points it was built on

    def __call__(self, x: Tensor) -> Tensor:
        return self.after(self.first(x))

    def after(self, image: Tensor) -> Tensor:
        """The standard layer on outputs of the implicit one."""
        spread = self.image.std() * math.sqrt(self.image.shape[1])
        return self.second((image - self.image.mean(0)) / spread)


def compose(
    units: HiddenLayer, lam: float, x: Tensor, second: int, generator: torch.Generator
) -> Composed:
    """The paper's class H_IBNN': `units` become implicit, `second` random standard units follow.

    Their head is to be fitted to h(v) = c . phi(H(v)) on V = IBNN(X); since H undoes the implicit
    layer, h(IBNN(x)) is the standard approximation g(x), and no inverse need be computed.
    """
    first = HiddenLayer(units.weight, units.bias, lam, units.slope, units.phi)
    image = first(x)
    after = random_units(image.shape[1], second, generator, dtype=image.dtype)
    return Composed(first, after, image)


def example(x: Tensor) -> Tensor:
    """A function on the square to approximate: a wave with a ridge."""
    return torch.sin(3 * x[:, 0]) * torch.cos(2 * x[:, 1]) + 0.5 * (x[:, 0] + x[:, 1]).abs()


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
