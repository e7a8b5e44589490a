"""Curves of the arms, their differences, and lam layer by layer: a row for each architecture."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ibnn.lab.experiments.architectures.amounts import IMPLICIT, STANDARD, WIDER
from ibnn.lab.experiments.architectures.claims import NAMES, best
from ibnn.lab.experiments.architectures.record import Records
from ibnn.lab.plotting import style
from ibnn.lab.plotting.intervals import draw_intervals

COLORS = {
    STANDARD: style.STANDARD,
    IMPLICIT: style.IMPLICIT,
    "mean-field": style.OTHER,
    "instance-norm": "#cc79a7",
    WIDER: "#56b4e9",
}


def draw(found: Mapping[str, Records], note: str) -> Figure:
    """Curves, differences from the standard network, lam by layer."""
    figure, axes = style.figure(
        3,
        len(found),
        width=11,
        height=0.6 + 3.1 * len(found),
        title="The neuron in other networks",
        width_ratios=(1.25, 1, 1),
    )
    for row, records in enumerate(found.values()):
        _curves(axes[3 * row], records)
        _differences(axes[3 * row + 1], records)
        _lam(axes[3 * row + 2], records)
    style.footnote(figure, note)
    return figure


def _curves(axes: Axes, records: Records) -> None:
    measure = records.measure
    for arm in records.arms():
        middle = [measure.shown(score) for score in records.median_curve(arm)]
        label = f"{arm} ({len(records.of(arm))})"
        line = "-" if arm in (STANDARD, IMPLICIT) else "--"
        axes.plot(range(1, 1 + len(middle)), middle, line, color=COLORS[arm], label=label)
    axes.set(title=NAMES[records.network], xlabel="epoch", ylabel=measure.name)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=7)


def _differences(axes: Axes, records: Records) -> None:
    measure = records.measure
    arms = [arm for arm in records.arms() if arm != STANDARD]
    found = {arm: records.difference(arm, STANDARD, best) for arm in arms}
    draw_intervals(axes, found, measure.unit, COLORS, measure.scale)
    axes.set_title("minus standard, best epoch")


def _lam(axes: Axes, records: Records) -> None:
    for arm in records.arms():
        layers = records.lam(arm)
        if not layers:
            continue
        places = range(1, 1 + len(layers))
        for record in records.of(arm):
            axes.plot(places, record.lam, ".", color=COLORS[arm], markersize=3, alpha=0.5)
        axes.plot(places, layers, "o-", color=COLORS[arm], linewidth=1.2, markersize=4, label=arm)
        axes.set_xlim(0.5, len(layers) + 0.5)
    axes.axhline(0.0, color=style.QUIET, linewidth=0.8)
    axes.set(title="lam after training", xlabel="layer", ylabel="lam")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)
