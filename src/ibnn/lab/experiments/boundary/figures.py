"""The drawings of the boundary experiment: boundaries, networks, seeds, the solve as a descent."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

import ibnn
from ibnn.lab import data
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.plane import Condition
from ibnn.lab.plotting import style
from ibnn.lab.plotting.intervals import draw_dots
from ibnn.lab.plotting.plane import Line, draw_panels
from ibnn.lab.stats import percent
from ibnn.lab.stats.region import unpack

Groups = Mapping[Condition, Sequence[Run]]

# the descent: its units, the lam and slope they are solved with, and how it is drawn
UNITS = 100
STD = 0.5  # of their pre-activations
LAMBDAS = (-1.0, -0.2, 0.05)
SLOPE = 10.0
STEPS = 24
SOLVERS = {"newton": ("Newton", "-", "o"), "gradient": ("gradient descent", "--", "s")}
FLOOR = 1e-13  # below it energies differ by rounding only


def draw_boundaries(dataset: str, standard: Sequence[Run], left: Groups, right: Groups) -> Figure:
    """Both panels: boundaries over the points, validation accuracies in the legend."""
    points = data.load(dataset)
    best = {condition.lam for condition in right}
    chosen_lam = f"λ = {best.pop():g}" if len(best) == 1 else "the best λ"
    slopes = " or ".join(sorted({f"{condition.slope:g}" for condition in left}))
    return draw_panels(
        "Decision boundaries of the median networks",
        (points.x_test, points.y_test),
        _line(standard, "standard") if standard else None,
        {
            f"λ at slope p = {slopes}": [_line(runs, c.short) for c, runs in left.items()],
            f"slope p at {chosen_lam}": [_line(runs, c.label) for c, runs in right.items()],
        },
    )


def _line(runs: Sequence[Run], label: str) -> Line:
    """The network of the median seed; its accuracy goes to the legend."""
    drawn = median_run(runs)
    return drawn.network(), f"{label}: {percent(drawn.result.accuracy)}"


def median_run(runs: Sequence[Run]) -> Run:
    """The run with the median accuracy; the lower one of the two in the middle."""
    ordered = sorted(runs, key=lambda run: (run.result.accuracy, run.config.seed))
    return ordered[(len(ordered) - 1) // 2]


def draw_every_network(groups: Groups) -> Figure:
    """A small map of the plane per network: settings are rows, seeds columns."""
    columns = max(8, *(len(runs) for runs in groups.values()))  # few seeds: small maps all the same
    height = 0.2 + 1.02 * len(groups)
    figure, (axes,) = style.figure(
        width=9.6, height=0.3 + height * 9.6 / (columns + 1.6), title="Every network"
    )
    style.bare(axes)
    colors = ListedColormap(style.CLASSES)
    for row, (condition, runs) in enumerate(groups.items()):
        top = 1.15 * row
        axes.text(-0.1, top + 0.45, condition.label.replace(", ", "\n"), ha="right", va="center")
        for column, run in enumerate(sorted(runs, key=lambda run: run.result.accuracy)):
            inside = unpack(run.measured["inside"])
            where = (column, column + 0.92, top + 0.92, top)
            axes.imshow(inside, cmap=colors, vmin=0, vmax=1, extent=where, origin="lower")
            text = f"{100 * run.result.accuracy:.0f}"
            axes.text(column + 0.46, top + 1.03, text, ha="center", va="center", fontsize=7)
    axes.set(xlim=(-1.6, columns), ylim=(len(groups) * 1.15, -0.2))
    return figure


def draw_seeds(standard: Sequence[Run], left: Groups, right: Groups) -> Figure:
    """Every seed as a dot, the median as a bar."""
    shades = dict(zip(right, style.reds(len(right)), strict=True))
    shades |= dict(zip(left, style.greens(len(left))[::-1], strict=True))
    groups = [("standard", standard, style.STANDARD)] if standard else []
    groups += [(c.label, runs, shades[c]) for c, runs in {**left, **right}.items()]
    dots = [(name, [run.result.accuracy for run in runs], color) for name, runs, color in groups]
    title = "Validation accuracy of every network"
    return draw_dots(dots, title, "validation accuracy after the last epoch, %")


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
    axes.set_title(f"Three units converge, λ = {lam:g}")
    axes.set_xlabel("(z₁ - z₃) / √2")
    axes.set_ylabel("(2 z₂ - z₁ - z₃) / √6")
    axes.set_aspect("equal")
    axes.grid(False)
    axes.legend(loc="lower right")
