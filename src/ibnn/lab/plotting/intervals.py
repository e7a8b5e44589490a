"""Paired differences as rows: the mean as a dot, its 95 % interval as a line."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from ibnn.lab.plotting import style
from ibnn.lab.stats import Paired


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
    axes.set(xlabel=label, ylim=(len(found) - 0.5, -0.5))
