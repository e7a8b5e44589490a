"""The drawings of the transfer experiment."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ibnn.lab.experiments.transfer.conversions import LAMBDAS, OLD, RECALIBRATED, REFITTED
from ibnn.lab.experiments.transfer.readings import Conversions, Reading
from ibnn.lab.plotting import style
from ibnn.lab.plotting.bands import NINETY, draw_band
from ibnn.lab.stats import band
from ibnn.lab.theory_checks.transfer.figures import draw_margins

WIDTH = 6.4
_MARKS = {OLD: ("o", "-"), RECALIBRATED: ("s", "--"), REFITTED: ("^", "-.")}
_LINEAR = 0.02  # lam is drawn to a linear scale up to here, then to a logarithmic one


def draw_conversions(found: Conversions, note: str) -> Figure:
    """Top: accuracy against lam. Bottom: robust accuracy."""
    title = "A trained standard network given an implicit bias"
    figure, (top, bottom) = style.figure(rows=2, width=WIDTH, height=6.2, title=title, sharex=True)
    _panel(top, found, "accuracy")
    _panel(bottom, found, "attacked")
    top.set_ylabel("validation accuracy, %")
    bottom.set_ylabel(f"robust accuracy (PGD, ε = {found.first['eps']:g}), %")
    _legend(top)
    _lam_axis(bottom)
    style.footnote(figure, note)
    return figure


def draw_margin_curve(found: Conversions, note: str) -> Figure:
    """Margins after conversion, and the paper's bound."""
    title = "The margin of a small classifier after conversion"
    figure, (axes,) = style.figure(width=WIDTH, height=3.9, title=title)
    draw_margins(axes, [margin["points"] for margin in found.margins.values()])
    axes.set_ylabel("margin between the classes")
    _legend(axes)
    _lam_axis(axes)
    style.footnote(figure, note)
    return figure


def _panel(axes: Axes, found: Conversions, reading: Reading) -> None:
    standard = band([100 * v for v in found.values(reading, OLD, 0.0).values()], NINETY)
    axes.axhspan(standard.low, standard.high, color=style.STANDARD, alpha=0.12, linewidth=0)
    axes.axhline(standard.median, color=style.STANDARD, linewidth=1.2, label="not converted")
    for (way, (marker, line)), color in zip(_MARKS.items(), style.greens(4)[1:], strict=True):
        values = [[100 * v for v in found.values(reading, way, x).values()] for x in LAMBDAS]
        draw_band(axes, LAMBDAS, values, color=color, label=way, marker=marker, line=line)


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
