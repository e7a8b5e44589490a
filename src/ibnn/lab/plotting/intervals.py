"""Rows of a figure: groups of accuracies as dots, paired differences with their intervals."""

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ibnn.lab.plotting import style
from ibnn.lab.stats import Paired


def draw_dots(
    groups: Sequence[tuple[str, Sequence[float], str]], title: str, label: str, alpha: float = 0.75
) -> Figure:
    """A row for each (name, accuracies, color); `label` names the accuracies."""
    height = 1.0 + 0.34 * max(1, len(groups))
    figure, (axes,) = style.figure(width=9.6, height=height, title=title)
    for row, (_, accuracies, color) in enumerate(groups):
        values = [100 * accuracy for accuracy in accuracies]
        axes.scatter(values, [row] * len(values), s=25, color=color, alpha=alpha, linewidths=0)
        axes.plot([median(values)] * 2, [row - 0.32, row + 0.32], color=style.INK, linewidth=1.6)
    axes.set_yticks(range(len(groups)), [name for name, _, _ in groups])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(label)
    return figure


def draw_intervals(
    axes: Axes,
    found: Mapping[str, Paired | None],
    label: str,
    colors: Mapping[str, str],
    scale: float = 100.0,
) -> None:
    """A row for each name, empty where nothing is known; differences times `scale`."""
    for place, (name, difference) in enumerate(found.items()):
        if difference is None:
            continue
        color = colors.get(name, style.INK)
        ends = [scale * difference.low, scale * difference.high]
        axes.plot(ends, [place, place], color=color, linewidth=1.6)
        axes.plot([scale * difference.mean], [place], "o", color=color, markersize=5)
    axes.axvline(0.0, color=style.STANDARD, linewidth=1.2)
    axes.set_yticks(range(len(found)), list(found))
    axes.set(xlabel=label, ylim=(max(len(found), 1) - 0.5, -0.5))
