"""The solve as a descent: the energy along the solver's steps, and the paths of three units."""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import ibnn
from ibnn.lab.plotting import style

UNITS = 100
STD = 0.5  # of their pre-activations
LAMBDAS = (-1.0, -0.2, 0.05)
SLOPE = 10.0
STEPS = 24
SOLVERS = {"newton": ("Newton", "-", "o"), "gradient": ("gradient descent", "--", "s")}
FLOOR = 1e-13  # below it energies differ by rounding only


def draw_energy() -> Figure:
    """Left: energy above its minimum against steps. Right: paths of three units."""
    figure, (falling, paths) = style.figure(
        2, width=9.6, height=4.3, title="The solve as a descent of the energy"
    )
    generator = torch.Generator().manual_seed(0)
    y = STD * torch.randn(UNITS, generator=generator, dtype=torch.float64)
    for lam, color in zip(LAMBDAS, style.greens(len(LAMBDAS))[::-1], strict=True):
        lowest = ibnn.energy(ibnn.implicit_bias(y, lam, SLOPE), y, lam, SLOPE)
        for solver, (name, line, _) in SOLVERS.items():
            above = [
                float(ibnn.energy(z, y, lam, SLOPE) - lowest) for z in _path(y, lam, solver, STEPS)
            ]
            count = next((i for i, e in enumerate(above) if e < FLOOR), len(above) - 1) + 1
            shown = np.maximum(above[:count], FLOOR)
            label = f"{name}, λ = {lam:g}"
            falling.plot(shown, line, color=color, marker=".", label=label)
    falling.set_yscale("log")
    falling.set_title(f"Energy above its minimum, {UNITS} units")
    falling.set_xlabel("steps of the solver")
    falling.legend(loc="lower right")
    _landscape(paths, torch.tensor([-0.55, 0.3, 0.4], dtype=torch.float64), lam=-0.5)
    return figure


def _path(y: Tensor, lam: float, solver: str, steps: int) -> list[Tensor]:
    """The solver's iterates from y on."""
    return [
        ibnn.solve(y, lam, SLOPE, solver=solver, max_steps=n, on_failure="ignore").value
        for n in range(steps + 1)
    ]


def _landscape(axes: Axes, y: Tensor, lam: float) -> None:
    """The energy of three units over the plane in which they move: their mean never changes."""
    plane = torch.tensor([[1.0, 0.0, -1.0], [-1.0, 2.0, -1.0]], dtype=torch.float64)
    plane = plane / plane.norm(dim=1, keepdim=True)
    u, v = torch.linspace(-0.8, 0.2, 101), torch.linspace(-0.3, 0.5, 81)
    vs, us = torch.meshgrid(v.double(), u.double(), indexing="ij")
    z = y.mean() + us[..., None] * plane[0] + vs[..., None] * plane[1]
    energies = ibnn.energy(z, y.expand_as(z), lam, SLOPE).numpy()
    axes.contour(u.numpy(), v.numpy(), energies, levels=18, colors=style.GRID, linewidths=1.0)
    for solver, color in (("gradient", style.OTHER), ("newton", style.IMPLICIT)):
        name, line, marker = SOLVERS[solver]
        path = torch.stack(_path(y, lam, solver, 40)) @ plane.T
        axes.plot(*path.T, line, color=color, marker=marker, markersize=4, label=name)
        ends = [(float(point[0]), float(point[1])) for point in (path[0], path[-1])]
        for text, end in zip(("y", "z"), ends, strict=True):
            axes.annotate(text, end, xytext=(0, -14), textcoords="offset points")
    axes.set_title(f"Three units find each other, λ = {lam:g}")
    axes.set_xlabel("(z₁ - z₃) / √2")
    axes.set_ylabel("(2 z₂ - z₁ - z₃) / √6")
    axes.set_aspect("equal")
    axes.grid(False)
    axes.legend(loc="lower right")
