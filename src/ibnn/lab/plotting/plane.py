"""Two classes of points in the plane, and where networks are undecided between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor, nn

from ibnn.lab.plotting import style
from ibnn.lab.stats.region import EDGE, logits_on_grid

SIDE = 241  # points per side of the grid on which boundaries are drawn


@dataclass(frozen=True)
class Boundary:
    """The line of one network, as it stands in the legend."""

    network: nn.Module
    label: str
    color: str
    width: float = 1.8


def draw_plane(axes: Axes, x: Tensor, y: Tensor, boundaries: Sequence[Boundary]) -> None:
    """Points by class, boundaries over them, the legend below.

    A network that puts the whole square into one class has its place in the legend and no line.
    """
    for label in (0, 1):
        shown = x[y == label]
        axes.scatter(*shown.T, s=7, color=style.CLASSES[label], alpha=0.55, linewidths=0)
    axis = np.linspace(-EDGE, EDGE, SIDE)
    lines = []
    for one in boundaries:
        values = logits_on_grid(one.network, SIDE)
        if values.min() < 0 < values.max():
            axes.contour(axis, axis, values, levels=[0.0], colors=[one.color], linewidths=one.width)
        lines.append(Line2D([], [], color=one.color, linewidth=one.width, label=one.label))
    style.bare(axes)
    axes.set_xlim(-EDGE, EDGE)
    axes.set_ylim(-EDGE, EDGE)
    axes.legend(
        handles=lines, loc="upper left", bbox_to_anchor=(0.0, 0.0), ncols=2, borderaxespad=0.2
    )
