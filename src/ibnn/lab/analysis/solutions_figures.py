"""Figures about solutions: certificates above the threshold, and dependence on the path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ibnn.lab.analysis.solutions_paths import Path, Paths
from ibnn.lab.plotting.style import IMPLICIT, INK, OTHER, QUIET, figure


def draw_certificates(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Left: the smallest eigenvalue of J over lam. Right: the share of rows certified."""
    made, (left, right) = figure(2, width=9.2, height=3.4)
    shares = [row["lam_over_threshold"] for row in rows]
    for axes in (left, right):
        _mark_threshold(axes)
        axes.set_xlabel("lam / threshold T")
    left.fill_between(
        shares,
        [row["smallest_lowest"] for row in rows],
        [row["smallest_highest"] for row in rows],
        color=IMPLICIT,
        alpha=0.2,
        linewidth=0,
    )
    middle = [row["smallest_median"] for row in rows]
    left.plot(shares, middle, color=IMPLICIT, marker="o", markersize=4, label="at the solution")
    everywhere = [row["everywhere_median"] for row in rows]
    label = "bound wherever a solution can be"
    left.plot(shares, everywhere, color=OTHER, marker="s", markersize=3.5, label=label)
    left.axhline(0, color=INK, linewidth=0.8)
    left.set_ylim(max(-2.5, min(everywhere) - 0.1), 1.15)
    left.set_ylabel("smallest eigenvalue of J")
    left.set_title("Is the solution a minimum?")
    left.legend(loc="upper right", frameon=True, edgecolor="none")
    stable = [100 * row["stable_share"] for row in rows]
    right.plot(shares, stable, color=IMPLICIT, marker="o", markersize=4, label="a strict minimum")
    unique = [100 * row["unique_share"] for row in rows]
    right.plot(shares, unique, color=OTHER, marker="s", markersize=3.5, label="the only solution")
    right.set_ylim(-4, 104)
    right.set_ylabel("rows for which it is proven (%)")
    right.set_title("A-posteriori certificates")
    right.legend(loc="upper right", frameon=True, edgecolor="none")
    return made


def draw_paths(paths: Paths, found: Mapping[float, tuple[Tensor, Tensor]]) -> Figure:
    """One unit's z - y as lam goes up and down, and as the input goes from one image to another and
    back; dots are the solutions other starts lead to."""
    made, (left, right) = figure(2, width=9.2, height=3.6)
    _there_and_back(left, paths.over_lam, "lam rising", "lam falling")
    unit = paths.over_lam.liveliest
    for at, (values, stables) in found.items():
        for stable, options in (
            (False, {"facecolors": "white", "edgecolors": QUIET, "zorder": 2}),
            (True, {"facecolors": INK, "edgecolors": "none", "alpha": 0.55, "zorder": 3}),
        ):
            chosen = values[stables == stable, unit]
            left.scatter([at] * len(chosen), chosen, s=12, linewidths=0.8, **options)
    _mark_threshold(left)
    left.set_xlabel("lam / threshold T")
    left.set_ylabel("z - y of one unit")
    left.set_title("Same input, several solutions")
    left.legend(loc="best", frameon=True, edgecolor="none")
    _there_and_back(right, paths.over_input, "there", "and back")
    right.set_xlabel("from image a (0) to image b (1)")
    right.set_ylabel("z - y of one unit")
    right.set_title(f"Hysteresis at lam = {paths.share:g} T")
    right.legend(loc="best")
    return made


def _there_and_back(axes: Axes, path: Path, going: str, coming: str) -> None:
    unit = path.liveliest
    axes.plot(path.at, path.there[:, unit], color=IMPLICIT, linewidth=2.4, label=going)
    dashed = (0, (4, 2))
    axes.plot(path.at.flip(0), path.back[:, unit], color=OTHER, linestyle=dashed, label=coming)


def _mark_threshold(axes: Axes) -> None:
    axes.axvline(1, color=QUIET, linewidth=1)
    place = axes.get_xaxis_transform()  # lam / T across, the height of the panel upwards
    axes.text(1.02, 0.02, "T", transform=place, ha="left", va="bottom", color=QUIET)
