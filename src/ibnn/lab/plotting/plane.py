"""Two classes of points in the plane, and where networks are undecided between them."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor, nn

from ibnn.lab.plotting import style
from ibnn.lab.stats.region import EDGE, logits_on_grid

SIDE = 241  # points per side of the grid on which boundaries are drawn

Line = tuple[nn.Module, str]  # a network, and its name in the legend


def draw_panels(
    title: str,
    points: tuple[Tensor, Tensor],
    standard: Line | None,
    panels: Mapping[str, Sequence[Line]],
) -> Figure:
    """Two panels by their titles, over lam (in greens) and over p (in reds), the standard network
    in both: points by class, boundaries over them, the legend below."""
    figure, both = style.figure(2, width=9.6, height=6.0, title=title)
    shades = (lambda count: style.greens(count)[::-1], style.reds)
    for axes, (name, lines), colors in zip(both, panels.items(), shades, strict=True):
        for label in (0, 1):
            shown = points[0][points[1] == label]
            axes.scatter(*shown.T, s=7, color=style.CLASSES[label], alpha=0.55, linewidths=0)
        handles = [_draw_boundary(axes, standard, style.STANDARD, 2.6)] if standard else []
        for line, color in zip(lines, colors(len(lines)), strict=True):
            handles.append(_draw_boundary(axes, line, color, 1.8))
        style.bare(axes)
        axes.set(
            xlim=(-EDGE, EDGE),
            ylim=(-EDGE, EDGE),
            title=name if lines else f"{name}: not trained yet",
        )
        place = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0)}
        axes.legend(handles=handles, ncols=2, borderaxespad=0.2, **place)
    return figure


def _draw_boundary(axes: Axes, line: Line, color: str, width: float) -> Line2D:
    """A network that puts the whole square into one class has its place in the legend and no
    line."""
    network, label = line
    values, axis = logits_on_grid(network, SIDE), np.linspace(-EDGE, EDGE, SIDE)
    if values.min() < 0 < values.max():
        axes.contour(axis, axis, values, levels=[0.0], colors=[color], linewidths=width)
    return Line2D([], [], color=color, linewidth=width, label=label)
