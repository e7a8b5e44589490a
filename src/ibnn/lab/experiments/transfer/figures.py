"""The drawings of the transfer experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ibnn.lab.experiments.accuracy.figures import BAND, WIDTH
from ibnn.lab.experiments.transfer.conversions import LAMBDAS, OLD, RECALIBRATED, REFITTED
from ibnn.lab.experiments.transfer.readings import Reading, Transferred
from ibnn.lab.plotting import style
from ibnn.lab.stats import band

_MARKS = {OLD: ("o", "-"), RECALIBRATED: ("s", "--"), REFITTED: ("^", "-.")}
_LINEAR = 0.02  # lam is drawn to a linear scale up to here, then to a logarithmic one


def draw_conversions(found: Transferred, note: str) -> Figure:
    """Top: accuracy against lam. Bottom: accuracy under attack."""
    figure, (top, bottom) = style.figure(rows=2, width=WIDTH, height=6.0, sharex=True)
    _panel(top, found, "accuracy")
    _panel(bottom, found, "attacked")
    top.set_ylabel("validation accuracy, %")
    eps = next(iter(found.measured.values()))["eps"]
    bottom.set_ylabel(f"accuracy under PGD, ε = {eps:g}, %")
    _legend(top)
    _lam_axis(bottom)
    _footnote(figure, note)
    return figure


def draw_margins(found: Transferred, note: str) -> Figure:
    """Margins after conversion, and the paper's bound."""
    figure, (axes,) = style.figure(width=WIDTH, height=3.6)
    every = list(found.margins.values())
    light, dark = style.greens(4)[1], style.greens(4)[3]
    _family(axes, _margins(every, "margin_refitted"), "new head of widest margin", dark, "^", "-.")
    _family(axes, _margins(every, "margin_old_head"), "old head", light, "o", "-")
    bounds = (("bound_sharper", "sharper bound", ":"), ("bound_paper", "M - 2 |λ| √D", "--"))
    for key, name, dashes in bounds:
        _family(axes, _margins(every, key), name, style.READING, "", dashes)
    axes.axhline(0.0, color=style.QUIET, linewidth=0.8)
    axes.set_ylabel("margin between the classes")
    _legend(axes)
    _lam_axis(axes)
    _footnote(figure, note)
    return figure


def _panel(axes: Axes, found: Transferred, reading: Reading) -> None:
    standard = band([100 * v for v in found.values(reading, OLD, 0.0).values()], BAND)
    axes.axhspan(standard.low, standard.high, color=style.STANDARD, alpha=0.12, linewidth=0)
    axes.axhline(standard.median, color=style.STANDARD, linewidth=1.2, label="not converted")
    for (way, (marker, dashes)), colour in zip(_MARKS.items(), style.greens(4)[1:], strict=True):
        values = [[100 * v for v in found.values(reading, way, x).values()] for x in LAMBDAS]
        _family(axes, values, way, colour, marker, dashes)


def _family(
    axes: Axes,
    values: Sequence[Sequence[float]],
    name: str,
    colour: str,
    marker: str,
    dashes: str,
) -> None:
    bands = [band(v, BAND) for v in values]
    low, high = [b.low for b in bands], [b.high for b in bands]
    axes.fill_between(LAMBDAS, low, high, color=colour, alpha=0.15, linewidth=0)
    middle = [b.median for b in bands]
    axes.plot(
        LAMBDAS, middle, color=colour, marker=marker, markersize=4, linestyle=dashes, label=name
    )


def _margins(every: Sequence[Mapping[str, Any]], key: str) -> list[list[float]]:
    return [[m["points"][index][key] for m in every] for index in range(len(LAMBDAS))]


def _legend(axes: Axes) -> None:
    """Above the panel: curves may go anywhere inside."""
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4, fontsize=7.5, borderpad=0)


def _lam_axis(axes: Axes) -> None:
    axes.set_xscale("symlog", linthresh=_LINEAR, linscale=0.5)
    axes.xaxis.set_major_locator(FixedLocator(list(LAMBDAS)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda lam, _: f"{lam:g}"))
    axes.set_xlim(1.3 * LAMBDAS[0], 1.3 * LAMBDAS[-1])
    axes.set_xlabel("λ")


def _footnote(figure: Figure, note: str) -> None:
    figure.text(0.995, 0.005, note, ha="right", va="bottom", fontsize=7, color=style.QUIET)
    figure.get_layout_engine().set(rect=(0, 0.03, 1, 0.97))  # pyright: ignore
