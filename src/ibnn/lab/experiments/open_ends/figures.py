"""Each arm against the standard network, and each option against what it changes."""

from matplotlib.figure import Figure

from ibnn.lab.experiments.open_ends.arms import ARMS, IMPLICIT, OPTIONS, STANDARD
from ibnn.lab.experiments.open_ends.record import Records
from ibnn.lab.plotting import style
from ibnn.lab.plotting.intervals import draw_intervals
from ibnn.lab.stats.families import EQUIVALENT


def draw(records: Records, note: str) -> Figure:
    """Two columns of intervals."""
    arms = [name for name in ARMS if records.of(name) and name != STANDARD]
    over = {arm: records.gain(arm, STANDARD) for arm in arms}
    changed = {
        f"{name} - {ARMS[name].against}": records.gain(name, str(ARMS[name].against))
        for name in OPTIONS
        if records.of(name)
    }
    title = "The paper's open ends: best accuracy of networks of equal seeds"
    figure, (first, second) = style.figure(2, width=9.6, height=1.9 + 0.32 * len(arms), title=title)
    colors = {IMPLICIT: style.IMPLICIT}
    draw_intervals(first, over, "arm minus standard, points", colors)
    draw_intervals(second, changed, "option minus what it changes, points", colors)
    second.axvspan(-100 * EQUIVALENT, 100 * EQUIVALENT, color=style.QUIET, alpha=0.15, linewidth=0)
    style.footnote(figure, note)
    return figure
