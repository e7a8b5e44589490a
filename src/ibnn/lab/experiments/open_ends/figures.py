"""Each arm against the standard network, and each option against what it changes."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ibnn.lab.experiments.open_ends.arms import ARMS, IMPLICIT, OPTIONS, STANDARD
from ibnn.lab.experiments.open_ends.record import Records
from ibnn.lab.plotting import style
from ibnn.lab.stats import Paired
from ibnn.lab.stats.families import EQUIVALENT


def draw(records: Records, note: str) -> Figure:
    """Two columns of intervals."""
    arms = [name for name in ARMS if records.of(name) and name != STANDARD]
    over = {arm: records.difference(arm, STANDARD) for arm in arms}
    changed = {
        f"{name} - {ARMS[name].against}": records.difference(name, str(ARMS[name].against))
        for name in OPTIONS
        if records.of(name)
    }
    title = "The paper's open ends: best accuracy of networks of equal seeds"
    figure, (first, second) = style.figure(2, width=9.6, height=1.9 + 0.32 * len(arms), title=title)
    _intervals(first, over, "arm minus standard, points")
    _intervals(second, changed, "option minus what it changes, points")
    second.axvspan(-100 * EQUIVALENT, 100 * EQUIVALENT, color=style.QUIET, alpha=0.15, linewidth=0)
    style.footnote(figure, note)
    return figure


def _intervals(axes: Axes, found: Mapping[str, Paired | None], label: str) -> None:
    for place, (name, difference) in enumerate(found.items()):
        if difference is None:
            continue
        color = style.IMPLICIT if name == IMPLICIT else style.INK
        axes.plot([100 * difference.low, 100 * difference.high], [place, place], color=color)
        axes.plot([100 * difference.mean], [place], "o", color=color, markersize=5)
    axes.axvline(0.0, color=style.STANDARD, linewidth=1.2)
    axes.set_yticks(range(len(found)), list(found))
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlabel(label)
