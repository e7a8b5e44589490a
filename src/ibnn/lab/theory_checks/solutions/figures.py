"""Figures about solutions: certificates above the threshold, and dependence on the path."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ibnn.lab.plotting.style import IMPLICIT, INK, OTHER, QUIET, figure
from ibnn.lab.theory_checks.solutions.paths import Path, Paths


def draw_certificates(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Left: the smallest eigenvalue of J over lam. Right: the rows certified, in percent."""
    made, (left, right) = figure(2, width=9.2, height=3.4)
    ratios = [row["lam_over_threshold"] for row in rows]
    for axes in (left, right):
        _mark_threshold(axes)
        axes.set_xlabel("λ / threshold T")
    low, high = ([row[f"smallest_{end}"] for row in rows] for end in ("lowest", "highest"))
    left.fill_between(ratios, low, high, color=IMPLICIT, alpha=0.2, linewidth=0)
    middle = [row["smallest_median"] for row in rows]
    left.plot(ratios, middle, color=IMPLICIT, marker="o", markersize=4, label="at the solution")
    everywhere = [row["everywhere_median"] for row in rows]
    label = "bound wherever a solution can be"
    left.plot(ratios, everywhere, color=OTHER, marker="s", markersize=3.5, label=label)
    left.axhline(0, color=INK, linewidth=0.8)
    left.set_ylim(max(-2.5, min(everywhere) - 0.1), 1.15)
    left.set_ylabel("smallest eigenvalue of J")
    left.set_title("Smallest eigenvalue of J (above 0: a minimum)")
    left.legend(loc="upper right", frameon=True, edgecolor="none")
    for key, label, color, marker in (
        ("stable_fraction", "a strict minimum", IMPLICIT, "o"),
        ("unique_fraction", "the only solution", OTHER, "s"),
    ):
        values = [100 * row[key] for row in rows]
        right.plot(ratios, values, color=color, marker=marker, markersize=4, label=label)
    right.set_ylim(-4, 104)
    right.set_ylabel("rows for which it is proven (%)")
    right.set_title("Certificates of the solutions found")
    right.legend(loc="upper right", frameon=True, edgecolor="none")
    return made


def draw_paths(paths: Paths, found: Mapping[float, tuple[Tensor, Tensor]]) -> Figure:
    """One unit's z - y as lam goes up and down, and as the input goes from one image to another and
    back; dots are the solutions other starts lead to."""
    made, (left, right) = figure(2, width=9.2, height=3.6)
    _out_and_back(left, paths.over_lam, "λ rising", "λ falling")
    unit = paths.over_lam.most_dependent
    for ratio, (values, stables) in found.items():
        for stable, options in (
            (False, {"facecolors": "white", "edgecolors": QUIET, "zorder": 2}),
            (True, {"facecolors": INK, "edgecolors": "none", "alpha": 0.55, "zorder": 3}),
        ):
            chosen = values[stables == stable, unit]
            left.scatter([ratio] * len(chosen), chosen, s=12, linewidths=0.8, **options)
    _mark_threshold(left)
    left.set_xlabel("λ / threshold T")
    left.set_title(title_over_lam(paths.over_lam))
    left.legend(loc="best", frameon=True, edgecolor="none")
    _out_and_back(right, paths.over_input, "there", "and back")
    right.set_xlabel("from image a (0) to image b (1)")
    right.set_title(title_over_input(paths))
    right.legend(loc="best")
    for axes in (left, right):
        axes.set_ylabel("z - y of one unit")
    return made


def title_over_lam(path: Path) -> str:
    """Whether lam rising and lam falling lead to different solutions, and from where on."""
    if not bool(path.apart.any()):
        return f"λ rising or falling: one solution, up to {float(path.at.max()):.2g} T"
    return f"λ rising or falling: two solutions from {float(path.at[path.apart].min()):.2g} T"


def title_over_input(paths: Paths) -> str:
    """Whether the way back leads through other solutions."""
    apart, ratio = paths.over_input.apart, f"{paths.moved_at:g} T"
    if not bool(apart.any()):
        return f"At {ratio} the way back is the way there"
    return f"At {ratio} the way back differs at {int(apart.sum())} of {len(apart)} points"


def _out_and_back(axes: Axes, path: Path, going: str, coming: str) -> None:
    unit, dashed = path.most_dependent, (0, (4, 2))
    axes.plot(path.at, path.out[:, unit], color=IMPLICIT, linewidth=2.4, label=going)
    axes.plot(path.at.flip(0), path.back[:, unit], color=OTHER, linestyle=dashed, label=coming)


def _mark_threshold(axes: Axes) -> None:
    axes.axvline(1, color=QUIET, linewidth=1)
    place = axes.get_xaxis_transform()  # lam / T across, the height of the panel upwards
    axes.text(1.02, 0.02, "T", transform=place, ha="left", va="bottom", color=QUIET)
