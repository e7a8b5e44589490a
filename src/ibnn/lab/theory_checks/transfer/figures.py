"""Figures about transfer: margins against their bounds, and accuracy over lam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from ibnn.lab.plotting.style import IMPLICIT, INK, OTHER, QUIET, STANDARD, figure


def draw_margins(tasks: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """One panel per task: margin over lam, old head and refitted one, above the bounds."""
    made, panels = figure(len(tasks), width=9.2, height=3.7)
    for axes, (name, rows) in zip(panels, tasks.items(), strict=True):
        lams = [row["lam"] for row in rows]
        before = rows[0]["margin_before"]
        lines = (
            ("margin_refitted", "refitted head", OTHER, "-", "s"),
            ("margin_old_head", "old head", IMPLICIT, "-", "o"),
            ("bound_sharper", "sharper bound", INK, "--", ""),
            ("bound_paper", "paper: M - 2 |λ| √D", QUIET, ":", ""),
        )
        for key, label, color, dashes, marker in lines:
            values = [row[key] for row in rows]
            axes.plot(lams, values, dashes, color=color, marker=marker, markersize=4, label=label)
        axes.plot([0], [before], "D", color=STANDARD, markersize=6, label="standard network, M")
        axes.axhline(0, color=INK, linewidth=0.8)
        top = max(max(row["margin_refitted"] for row in rows), before)
        axes.set_ylim(-0.75 * top, 1.12 * top)
        axes.set_xlabel("λ")
        axes.set_title(f"{name}, {rows[0]['units']} units")
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
    axes.set_xlabel("λ")
    axes.set_ylabel("test accuracy (%)")
    axes.set_title("The network's own weights with another λ")
    axes.legend(loc="best")
    return made
