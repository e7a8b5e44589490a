"""The drawing of the stealth attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ibnn.lab.analysis.unseen import counts
from ibnn.lab.plotting import style
from ibnn.lab.stats import percent_short

if TYPE_CHECKING:
    from ibnn.lab.analysis.stealth_outcome import Outcome

# attacks by the look of their line, networks by colour
LINES = {
    "optimised": ("-", 2.2, "optimised"),
    "threshold": ("--", 1.4, "threshold (Tyukin et al.)"),
    "no threshold": (":", 1.6, "no threshold (as in the paper)"),
}


def draw(outcomes: Sequence[Outcome], tolerance: float) -> Figure:
    """Left: chance to stay unseen against verification examples. Right: against tolerance."""
    figure, (left, right) = style.figure(2, width=9.6, height=4.1, sharey=True)
    for outcome in outcomes:
        line, width, _ = LINES[outcome.attack]
        # lines coincide where the neuron makes no difference: the standard one lies broad below
        broad = 3.0 if outcome.lam is None else 0.0
        alpha = 0.4 if outcome.lam is None else 1.0
        look = {"ls": line, "lw": width + broad, "color": _colour(outcome), "alpha": alpha}
        n = counts(outcome.changes.shape[1])
        left.plot(n, [100 * outcome.unseen(k, tolerance) for k in n], **look)
        grid = np.logspace(-5, 0.3, 200)
        pool = outcome.changes.shape[1]
        right.plot(grid, [100 * outcome.unseen(pool, e) for e in grid], **look)
        if outcome.attack == "optimised" and outcome.bound:
            right.axvline(outcome.bound, color=_colour(outcome), lw=0.8)
    left.set_xscale("log")
    left.set_title(f"Unseen at {percent_short(tolerance)} of the gain")
    left.set_xlabel("verification examples")
    left.set_ylabel("attacks that stay unseen, %")
    left.set_ylim(-4, 104)
    right.set_xscale("log")
    right.axvline(tolerance, color=style.QUIET, lw=0.8, ls=":")
    right.set_title("Unseen in the whole pool")
    right.set_xlabel("the owner's tolerance, as a share of the gain")
    _legend(left, outcomes)
    return figure


def _colour(outcome: Outcome) -> str:
    if outcome.lam is None:
        return style.STANDARD
    return style.IMPLICIT if outcome.kept else style.greens(4)[0]


def _legend(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    networks = {outcome.label: _colour(outcome) for outcome in outcomes}
    handles = [
        Line2D([], [], color=colour, lw=2.2, label=name) for name, colour in networks.items()
    ]
    for line, width, label in LINES.values():
        handles.append(Line2D([], [], color=style.INK, ls=line, lw=width, label=label))
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=3)  # type: ignore[union-attr]
