"""Accuracy and wrong labels learnt by heart, against the fraction of wrong labels."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ibnn.lab.experiments.overfitting.claims import (
    ARMS,
    CONTROL,
    IMPLICIT,
    STANDARD,
    best,
    last,
    learnt,
)
from ibnn.lab.experiments.overfitting.record import Reading, Records
from ibnn.lab.plotting import style
from ibnn.lab.stats import band

_COLORS = {STANDARD: style.STANDARD, IMPLICIT: style.IMPLICIT, CONTROL: style.OTHER}


def draw(records: Records, note: str) -> Figure:
    """Best and last validation accuracy on the left, labels learnt by heart on the right."""
    figure, (left, right) = style.figure(2, width=9.6, height=4.2)
    for arm in ARMS:
        _line(left, records, arm, best, "-", arm)
        _line(left, records, arm, last, ":", f"{arm}, last epoch")
        _line(right, records, arm, learnt, "-", arm)
    left.set_ylabel("validation accuracy, %")
    right.set_ylabel("wrong labels given back, %")
    for axes in (left, right):
        axes.set_xlabel("wrong training labels, %")
        axes.legend(loc="best", fontsize=7)
    style.footnote(figure, note)
    return figure


def _line(axes: Axes, records: Records, arm: str, read: Reading, line: str, label: str) -> None:
    found = [(w, list(records.values(arm, w, read).values())) for w in records.fractions()]
    known = [
        (100 * wrong, band([100 * v for v in values], 1.0)) for wrong, values in found if values
    ]
    if known:
        xs = [x for x, _ in known]
        color = _COLORS[arm]
        axes.plot(xs, [b.median for _, b in known], line, marker="o", color=color, label=label)
        if line == "-":
            low, high = [b.low for _, b in known], [b.high for _, b in known]
            axes.fill_between(xs, low, high, color=color, alpha=0.15, linewidth=0)
