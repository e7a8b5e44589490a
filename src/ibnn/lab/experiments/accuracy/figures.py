"""The drawings the accuracy experiments have in common."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from ibnn.lab.experiments.accuracy.comparison import Comparison, Match
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.plotting import style
from ibnn.lab.plotting.bands import draw_band
from ibnn.lab.stats import percent

WIDTH = 6.4


@dataclass(frozen=True)
class Axis:
    """The x axis of a comparison: its name, how its numbers are written, and its scale."""

    label: str
    write: Callable[[float], str]
    ticks: Sequence[float] | None = None
    log: bool = False
    marks: bool = True  # whether values get a marker: few ones, not every epoch


def draw_comparison(
    comparison: Comparison, axis: Axis, title: str, note: str, match: Match | None = None
) -> Figure:
    """Top: median and band of both neurons. Bottom: paired difference with its 95 % interval."""
    figure, (top, bottom) = style.figure(
        rows=2,
        width=WIDTH,
        height=5.6,
        title=title,
        sharex=True,
        gridspec_kw={"height_ratios": (3, 1.4)},
    )
    marker = "o" if axis.marks else ""
    for curves, name, color in (
        (comparison.standard, "standard ()", style.STANDARD),
        (comparison.implicit, "implicit bias ()", style.IMPLICIT),
    ):
        values = [
            [100 * curve[i] for curve in curves.values() if not math.isnan(curve[i])]
            for i in range(len(comparison.xs))
        ]
        draw_band(top, comparison.xs, values, color=color, label=name, marker=marker)
    if match is not None:
        _draw_match(top, match, axis)
    top.set_ylabel("validation accuracy, %")
    if not comparison.is_empty:
        top.legend(loc="lower right")
    _differences(bottom, comparison, marker)
    bottom.set_ylabel("implicit minus\nstandard, points")
    _set_axis(bottom, axis)
    style.footnote(figure, note)
    return figure


def draw_lam(runs: Mapping[str, Sequence[Run]]) -> Figure:
    """lam over the epochs: one panel per layer, one line per group (its median), all runs pale."""
    layers = max((len(run.result.lam) for group in runs.values() for run in group), default=1)
    title = "λ of the implicit-bias networks while training"
    figure, panels = style.figure(layers, width=WIDTH, height=3.0, title=title, sharey=True)
    colors = style.greens(len(runs))
    for layer, axes in enumerate(panels):
        for (name, group), color in zip(runs.items(), colors, strict=True):
            paths = [[line.lam[layer] for line in run.validations()] for run in group]
            for path in paths:
                axes.plot(range(1, len(path) + 1), path, color=color, alpha=0.3, linewidth=0.8)
            if paths:
                middle = [median(values) for values in zip(*paths, strict=False)]
                axes.plot(range(1, len(middle) + 1), middle, color=color, label=name)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title(f"layer {layer + 1}" if layers > 1 else "")
    panels[0].set_ylabel("λ")
    if any(runs.values()) and len(runs) > 1:
        panels[-1].legend(loc="best", fontsize=7)
    return figure


def _draw_match(axes: Axes, match: Match, axis: Axis) -> None:
    """The paper's dashed reading: the standard best, where it is, and where it is matched."""
    level = 100 * match.level
    axes.axhline(level, color=style.READING, linestyle="--", linewidth=1.1)
    axes.annotate(
        f"standard best {percent(match.level)}",
        (0.0, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(3, 2),
        textcoords="offset points",
        va="bottom",
        color=style.READING,
        fontsize=7.5,
    )
    # one below the line, one above: they may stand at almost the same x
    for x, color, away in (
        (match.standard, style.STANDARD, -15),
        (match.implicit, style.IMPLICIT, 9),
    ):
        if x is not None:
            axes.plot([x], [level], marker="o", markersize=7, mfc="none", mec=color, mew=1.6)
            axes.annotate(
                axis.write(x),
                (x, level),
                xytext=(0, away),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=color,
            )


def _differences(axes: Axes, comparison: Comparison, marker: str) -> None:
    found = [(x, comparison.difference(i)) for i, x in enumerate(comparison.xs)]
    known = [(x, d) for x, d in found if d is not None]
    axes.axhline(0.0, color=style.STANDARD, linewidth=1.2)
    if not known:
        return
    xs = [x for x, _ in known]
    low, high = [100 * d.low for _, d in known], [100 * d.high for _, d in known]
    axes.fill_between(xs, low, high, color=style.IMPLICIT, alpha=0.18, linewidth=0)
    means = [100 * d.mean for _, d in known]
    axes.plot(xs, means, color=style.IMPLICIT, marker=marker, markersize=4)


def _set_axis(axes: Axes, axis: Axis) -> None:
    axes.set_xlabel(axis.label)
    if axis.log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if axis.ticks is not None:
        ticks = list(axis.ticks)
        room = 0.0 if axis.log else 0.06 * (max(ticks) - min(ticks))  # that a label takes
        axes.set_xticks([x for x in ticks if not any(0 < x - y < room for y in ticks)])
    elif not axis.log:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: axis.write(x)))
