"""The drawings of the lambda sweep: the map, and the same numbers against lam times p."""

from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ibnn.lab.experiments.lambda_sweep.cells import COLUMNS, FIXED, NEGATIVE, Cell, SweepRuns
from ibnn.lab.plotting import style
from ibnn.lab.stats import percent

WIDEST = 3.0  # points of accuracy at which colors end, so that a collapsed cell hides no other
NARROWEST = 1.0
_GAP = 0.35  # between the groups of columns


def draw_map(swept: SweepRuns, note: str) -> Figure:
    """One cell for each slope and lam, colored by the neuron that is better there."""
    slopes = sorted({cell.slope for cell in swept.cells}, reverse=True)
    standard = swept.accuracy()
    beside = "" if standard is None else f" (standard network: {percent(standard)})"
    figure, (axes,) = style.figure(
        width=9.0,
        height=2.2 + 0.62 * len(slopes),
        title=f"Accuracy on held-out images over λ and slope{beside}",
    )
    reach = _reach(swept)
    scale = ScalarMappable(TwoSlopeNorm(0.0, -reach, reach), _colors())
    for cell in swept.cells:
        _draw_cell(axes, swept, cell, slopes.index(cell.slope), scale)
    axes.set_xlim(-0.05, _left(len(COLUMNS) - 1) + 1.05)
    axes.set_ylim(len(slopes), 0)
    axes.set_xticks([_left(i) + 0.5 for i in range(len(COLUMNS))])
    axes.set_xticklabels([_wrapped(column.name) for column in COLUMNS])
    axes.set_yticks([row + 0.5 for row in range(len(slopes))])
    axes.set_yticklabels([f"{slope:g}" for slope in slopes])
    axes.set_xlabel("λ: fixed, below 0 and as a fraction of the threshold; and learnt")
    axes.set_ylabel("slope p")
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(scale, ax=axes, extend="both", pad=0.015, aspect=14)
    bar.set_label("gain over the standard\nnetwork, points", fontsize=8)
    bar.outline.set_visible(False)  # pyright: ignore
    style.footnote(figure, note)
    return figure


def draw_products(swept: SweepRuns, note: str) -> Figure:
    """The gain of fixed lam against lam * p, which alone counts while pre-activations are small."""
    figure, (axes,) = style.figure(
        width=9.0, height=4.0, title="Gain over the standard network against λ p"
    )
    slopes = sorted({cell.slope for cell in swept.cells})
    axes.axhline(0.0, color=style.STANDARD, linewidth=1.4, label="standard")
    for slope, color in zip(slopes, style.greens(len(slopes)), strict=True):
        cells = [c for c in swept.cells if c.slope == slope and c.column in FIXED]
        known = [(_fixed(c) * slope, [100 * g for g in swept.gains(c)]) for c in cells]
        known = [(x, gains) for x, gains in known if gains]
        known = sorted([*known, (0.0, [0.0])]) if known else []  # lam = 0 is the standard neuron
        for x, gains in known:
            axes.plot([x] * len(gains), gains, ".", color=color, alpha=0.35, markersize=4)
        axes.plot(
            [x for x, _ in known],
            [median(gains) for _, gains in known],
            color=color,
            marker="o",
            markersize=4,
            label=f"p = {slope:g}",
        )
    axes.set_xscale("symlog", linthresh=1.0, linscale=1.2)
    axes.xaxis.set_major_locator(FixedLocator([-100, -30, -10, -3, -1, -0.5, 0, 0.5, 0.95]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    # collapsed cells lose tens of points: to a linear scale they would flatten all the others
    axes.set_yscale("symlog", linthresh=2.0)
    axes.yaxis.set_major_locator(FixedLocator([-50, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:+g}" if y else "0"))
    axes.set_xlabel("λ p (1: the threshold of uniqueness)")
    axes.set_ylabel("gain over the standard\nnetwork, points")
    axes.legend(loc="best", ncols=2, fontsize=7.5)
    style.footnote(figure, note)
    return figure


def _draw_cell(axes: Axes, swept: SweepRuns, cell: Cell, row: int, scale: ScalarMappable) -> None:
    gains, accuracy = swept.gains(cell), swept.accuracy(cell)
    if not gains or accuracy is None:
        return
    gain, left = 100 * median(gains), _left(COLUMNS.index(cell.column))
    color = scale.to_rgba(np.array([gain]))[0]
    axes.add_patch(Rectangle((left + 0.02, row + 0.03), 0.96, 0.94, facecolor=color))
    if cell == swept.best:
        axes.add_patch(
            Rectangle((left + 0.04, row + 0.06), 0.92, 0.88, fill=False, ec=style.READING, lw=1.8)
        )
    dark = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] < 0.55
    ink = "white" if dark else style.INK
    place: Any = {"ha": "center", "va": "center", "color": ink}
    axes.text(left + 0.5, row + 0.37, f"{100 * accuracy:.1f}", fontsize=9, weight="bold", **place)
    axes.text(left + 0.5, row + 0.71, f"{gain:+.1f}", fontsize=7.5, **place)


def _fixed(cell: Cell) -> float:
    lam = cell.column.at(cell.slope)
    assert lam is not None
    return lam


def _wrapped(name: str) -> str:
    """The name of a column on two lines, if it is long."""
    return name.replace(", ", ",\n") if ", " in name else name.replace(" learnt", "\nlearnt")


def _left(column: int) -> float:
    """The left edge of a column: groups stand apart."""
    return column + _GAP * (column >= len(NEGATIVE)) + _GAP * (column >= len(FIXED))


def _reach(swept: SweepRuns) -> float:
    """Where the colors end, in points."""
    largest = max((abs(100 * median(g)) for c in swept.cells if (g := swept.gains(c))), default=0)
    return min(max(largest, NARROWEST), WIDEST)


def _colors() -> Colormap:
    """The color of the better neuron; white where they are equal."""
    stops = [style.STANDARD, "#8fbfdd", "#f7f7f7", "#86cfb6", style.IMPLICIT]
    return LinearSegmentedColormap.from_list("neurons", stops)
