"""Figures about transfer: margins against their bounds, and accuracy over lam."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ibnn.lab.plotting.bands import draw_band
from ibnn.lab.plotting.style import IMPLICIT, INK, OTHER, QUIET, STANDARD, figure

Rows = Sequence[Mapping[str, Any]]  # one for each lam

# what is drawn of a margin: key of a row, name, look
LINES = (
    ("margin_refitted", "refitted head", OTHER, "-", "s"),
    ("margin_old_head", "old head", IMPLICIT, "-", "o"),
    ("bound_sharper", "sharper bound", INK, "--", ""),
    ("bound_paper", "paper: M - 2 |λ| √D", QUIET, ":", ""),
)


def draw_margins(axes: Axes, networks: Sequence[Rows]) -> None:
    """Margins over lam, old head and refitted one, above the bounds: the median of the networks
    and the band of 90 % of them."""
    lams = [row["lam"] for row in networks[0]]
    for key, label, color, line, marker in LINES:
        values = [[row[key] for row in rows] for rows in zip(*networks, strict=True)]
        draw_band(axes, lams, values, color=color, label=label, marker=marker, line=line)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set_xlabel("λ")


def draw_tasks(tasks: Mapping[str, Rows]) -> Figure:
    """One panel per task, the margin of the standard network marked."""
    made, panels = figure(len(tasks), width=9.2, height=3.7)
    for axes, (name, rows) in zip(panels, tasks.items(), strict=True):
        draw_margins(axes, [rows])
        before = rows[0]["margin_before"]
        axes.plot([0], [before], "D", color=STANDARD, markersize=6, label="standard network, M")
        top = max(before, *(row["margin_refitted"] for row in rows))
        axes.set(title=f"{name}, {rows[0]['units']} units", ylim=(-0.75 * top, 1.12 * top))
    panels[0].set_ylabel("margin (unit-norm head)")
    handles, labels = panels[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=len(labels), handlelength=2)
    return made


def draw_accuracy(rows: Sequence[Mapping[str, Any]], standard: float) -> Figure:
    """Accuracy of the network's weights with other lam, without any training."""
    made, (axes,) = figure(1, width=9.2, height=3.2)
    lams = [row["lam"] for row in rows]
    for key, label, color, marker in (
        ("accuracy", "as it is", IMPLICIT, "o"),
        ("accuracy_recalibrated", "batch norm recalibrated", OTHER, "s"),
    ):
        if rows[0].get(key) is not None:
            values = [100 * row[key] for row in rows]
            axes.plot(lams, values, color=color, marker=marker, markersize=4, label=label)
    axes.axhline(100 * standard, color=STANDARD, linestyle="--", label="without implicit bias")
    title = "The network's own weights with another λ"
    axes.set(title=title, xlabel="λ", ylabel="test accuracy (%)")
    axes.legend(loc="best")
    return made
