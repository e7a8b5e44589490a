"""Groups of accuracies as rows of dots, the median of each as a bar."""

from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure

from ibnn.lab.plotting import style


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
