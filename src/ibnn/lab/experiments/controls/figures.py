"""Learning curves of the arms, their differences, and their accuracy under attack."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ibnn.lab.experiments.controls import arms
from ibnn.lab.experiments.controls.arms import IMPLICIT, NEGATIVE, STANDARD
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.plotting import style
from ibnn.lab.plotting.intervals import draw_intervals
from ibnn.lab.stats import median_curve, paired
from ibnn.lab.stats.families import EQUIVALENT

# Okabe and Ito's other colors; dashes tell the further controls apart.
_COLORS = ("#d55e00", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#5b5b5b")
_NEGATIVE = (NEGATIVE, "shrink", arms.DECAY)


def draw_curves(records: Records, note: str) -> Figure:
    """Validation accuracy by epoch: close controls on the left, the rest on the right."""
    groups = [(arms.CLOSE, "close controls"), ((*arms.FURTHER, NEGATIVE, "shrink"), "further arms")]
    shown = [(names, title) for names, title in groups if any(records.of(n) for n in names)]
    shown = shown or [((), "")]
    title = "Validation accuracy while training, median of each arm"
    figure, panels = style.figure(
        len(shown), width=4.6 * len(shown) + 1.2, height=4.4, title=title, sharey=True
    )
    for axes, (names, title) in zip(panels, shown, strict=True):
        for number, name in enumerate(names):
            color = _COLORS[number % len(_COLORS)]
            _curve(axes, records, name, color, "--" if number < len(_COLORS) else ":", 1.2)
        _curve(axes, records, STANDARD, style.STANDARD, "-", 2.0)
        _curve(axes, records, IMPLICIT, style.IMPLICIT, "-", 2.0)
        axes.set_title(title)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if axes.lines:
            axes.legend(loc="lower right", fontsize=7)
    panels[0].set_ylabel("validation accuracy, %")
    style.footnote(figure, note)
    return figure


def _curve(axes: Axes, records: Records, arm: str, color: str, line: str, width: float) -> None:
    curves = {record.seed: record.smooth() for record in records.of(arm)}
    if curves:
        middle = [100 * value for value in median_curve(curves)]
        label = f"{arm} ({len(curves)})"
        epochs = range(1, len(middle) + 1)
        axes.plot(epochs, middle, line, color=color, linewidth=width, label=label)


def draw_differences(records: Records) -> Figure:
    """Two columns of intervals: each arm minus standard, and implicit minus each arm."""
    shown = [name for name in arms.ARMS if records.of(name) and name != STANDARD]
    over = {arm: paired(records.best(arm), records.best(STANDARD)) for arm in shown}
    others = [arm for arm in shown if arm != IMPLICIT]
    left = {arm: paired(records.best(IMPLICIT), records.best(arm)) for arm in others}
    height = 1.7 + 0.3 * max(1, len(shown))
    title = "Differences of best accuracy between networks of equal seeds"
    figure, (first, second) = style.figure(2, width=8.4, height=height, title=title)
    colors = {IMPLICIT: style.IMPLICIT}
    draw_intervals(first, over, "arm minus standard, points", colors)
    draw_intervals(second, left, "implicit minus arm, points", colors)
    second.axvspan(-100 * EQUIVALENT, 100 * EQUIVALENT, color=style.QUIET, alpha=0.15, linewidth=0)
    pairs = [found.count for found in (*over.values(), *left.values()) if found is not None]
    if pairs:
        counts = " to ".join(map(str, sorted({min(pairs), max(pairs)})))
        style.footnote(figure, f"{counts} pairs of equal seeds")
    return figure


def draw_attacked(records: Records, eps: Sequence[float], note: str) -> Figure:
    """White-box accuracy against eps, the median of each arm."""
    title = "Robust accuracy against the size of the PGD attack"
    figure, (axes,) = style.figure(width=6.4, height=4.6, title=title)
    names = [name for name in arms.ARMS if records.attacked(name)]
    fixed = {STANDARD: style.STANDARD, IMPLICIT: style.IMPLICIT}
    for number, name in enumerate(names):
        middle = [100 * value for value in records.attacked(name)]
        bold = name in fixed or name in _NEGATIVE
        axes.plot(
            eps,
            middle,
            "-" if bold else "--",
            color=fixed.get(name, _COLORS[number % len(_COLORS)]),
            linewidth=1.9 if bold else 1.0,
            label=f"{name} ({len(records.robust(name))})",
        )
    axes.set(xlabel="eps (l_inf, images in [0, 1])", ylabel="robust accuracy, %")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right", fontsize=7)
    style.footnote(figure, note)
    return figure
