"""The layers that are measured, with and without the implicit bias, and their exact solutions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import ibnn
from ibnn import sigma as sigmas
from ibnn.lab.bench import engines
from ibnn.lab.theory_checks.numerics.operator import BiasOperator

MAPS = (-2, -1)
NEWTON_STEPS = 20  # of Newton, quadratic from where the library ends


@dataclass(frozen=True)
class Reference:
    """z of one row, and the Cholesky factor of the Jacobian there."""

    y: Tensor
    z: Tensor
    factor: Tensor

    def gradient(self, g: Tensor) -> Tensor:
        """dL/dy where dL/dz is g."""
        return torch.cholesky_solve(g.double()[:, None], self.factor)[:, 0]

    def error(self, z: Tensor) -> float:
        """The largest |z_i - exact| / max(1, |y_i|): the promise is 1e-5 in float32."""
        return float(((z.double() - self.z).abs() / self.y.abs().clamp(min=1)).max())

    def gradient_error(self, found: Tensor, g: Tensor) -> float:
        """The error of dL/dy relative to its size, in the Euclidean norm."""
        exact = self.gradient(g)
        return float((found.double() - exact).norm() / exact.norm())


def solve_exactly(y: Tensor, lam: float, slope: float = 10.0, sigma: str = "tanh") -> Reference:
    """The solution for one row `y` under uniform coupling, lam below the threshold.

    There the solution is unique, so it does not matter where Newton starts, only that the residual,
    by sums over all pairs, ends at rounding: the library's own answer is the start.
    """
    y = y.detach().double()
    function = sigmas.resolve(sigma)
    z = ibnn.implicit_bias(y, lam, slope, sigma=sigma, on_failure="ignore")
    smallest = torch.inf
    best, factor = z, torch.empty(0)
    for _ in range(NEWTON_STEPS):
        residual = z - y + lam * function.value(slope * (z[None, :] - z[:, None])).mean(1)
        size = float(residual.abs().max())
        if not size < smallest / 2:  # the digits end
            break
        best, smallest = z, size
        operator = BiasOperator(z[None], lam, slope, sigma=function)
        factor = torch.linalg.cholesky(operator.dense_jacobian()[0])
        z = z - torch.cholesky_solve(residual[:, None], factor)[:, 0]
    if smallest > 1e-12 * float(y.abs().max().clamp(min=1)):
        raise RuntimeError(f"the reference has a residual of {smallest:.1e} at lam {lam:g}")
    return Reference(y, best, factor)


@dataclass(frozen=True)
class Shape:
    """Images of a batch, and the convolution over them (padding "same")."""

    batch: int
    in_channels: int
    side: int
    out_channels: int
    kernel: int

    @property
    def name(self) -> str:
        return f"{self.batch}x{self.in_channels}x{self.side}x{self.side}->{self.out_channels}"

    @property
    def input_gradient(self) -> bool:
        """Images are data; the maps of a hidden layer need a gradient too."""
        return self.in_channels > 3

    @property
    def bytes(self) -> int:
        """The size of y in float32: the unit in which memory is told."""
        return 4 * self.batch * self.out_channels * self.side**2


SHAPES = (
    Shape(128, 1, 28, 3, 4),
    Shape(128, 3, 32, 3, 5),
    Shape(128, 8, 32, 8, 5),
    Shape(128, 16, 32, 16, 5),
)


@dataclass(frozen=True)
class Pair:
    """One convolution as a standard and as an implicit layer, with an input and a gradient."""

    x: Tensor
    g: Tensor
    standard: nn.Module
    implicit: nn.Module

    @property
    def y(self) -> Tensor:
        """The pre-activations: what the standard layer gives to its ReLU."""
        with torch.no_grad():
            return self.standard[0](self.x)  # type: ignore[index]


def pair(shape: Shape, lam: float, std: float, **options: Any) -> Pair:
    """Both layers with the same weights, scaled so that the units of a map spread by `std`."""
    generator = torch.Generator().manual_seed(0)
    size = (shape.batch, shape.in_channels, shape.side, shape.side)
    x = torch.randn(size, generator=generator).requires_grad_(shape.input_gradient)
    arguments = (shape.in_channels, shape.out_channels, shape.kernel)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        conv = nn.Conv2d(*arguments, padding="same")
    with torch.no_grad():
        scale = std / conv(x).var(MAPS).mean().sqrt()
        conv.weight.mul_(scale)
        conv.bias.mul_(scale)  # type: ignore[union-attr]
    layer = ibnn.Conv2d(*arguments, padding="same", lam=lam, on_failure="ignore", **options)
    layer.load_state_dict(conv.state_dict(), strict=False)
    g = torch.randn((shape.batch, shape.out_channels, *size[2:]), generator=generator)
    return Pair(x, g, nn.Sequential(conv, nn.ReLU()), nn.Sequential(layer, nn.ReLU()))


def forward(module: Callable[[Tensor], Tensor], x: Tensor) -> None:
    with torch.no_grad():
        module(x)


def forward_backward(module: nn.Module, x: Tensor, g: Tensor) -> None:
    """One pass each way, as in a training step: gradients of the weights, of lam, of x if asked."""
    module.zero_grad(set_to_none=True)
    x.grad = None
    module(x).backward(g)


class References:
    """A few rows of `y` solved exactly: those of the narrowest, a middle and the widest spread."""

    def __init__(
        self, y: Tensor, lam: float, rows: int, slope: float = 10.0, sigma: str = "tanh"
    ) -> None:
        flat = y.flatten(0, -3).flatten(-2) if y.ndim > 2 else y
        order = (flat.amax(-1) - flat.amin(-1)).argsort(descending=True)
        picks = torch.linspace(0, len(order) - 1, min(rows, len(order))).round().long()
        self.rows = order[picks].tolist()
        self.lam, self.slope, self.sigma = lam, slope, sigma
        self.y = flat.detach()
        self.g = torch.randn(flat.shape, generator=torch.Generator().manual_seed(1)).to(flat.dtype)
        self.exact = [solve_exactly(self.y[row], lam, slope, sigma) for row in self.rows]

    def compare(self, z: Tensor, gradient: Tensor) -> tuple[float, float]:
        """The worst error of z, and of dL/dy for dL/dz = g, over the rows."""
        pairs = list(zip(self.rows, self.exact, strict=True))
        return (
            max(reference.error(z[row]) for row, reference in pairs),
            max(reference.gradient_error(gradient[row], self.g[row]) for row, reference in pairs),
        )

    def judge(self, engine: str) -> dict[str, float]:
        """How right the library's own answer is, and what it took."""
        y = self.y.clone().requires_grad_()
        options: dict[str, Any] = {"sigma": self.sigma, "on_failure": "ignore"}
        with engines.using(engine):
            solution = ibnn.solve(y, self.lam, self.slope, **options)
            solution.value.backward(self.g)
        assert y.grad is not None
        error, gradient_error = self.compare(solution.value.detach(), y.grad)
        return {
            "error": error,
            "gradient_error": gradient_error,
            "steps": int(solution.steps.max()),
            "converged": float(solution.converged.float().mean()),
        }


def choose(values: Sequence[Any], quick: bool, few: int) -> Sequence[Any]:
    """All of them, or the first few in a quick run."""
    return values[:few] if quick else values
