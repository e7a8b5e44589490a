"""Figures about expressivity: expansion and approximation, both networks on a plane."""

from collections.abc import Sequence
from statistics import median

import numpy as np
from contourpy import contour_generator
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from ibnn.lab.plotting import style
from ibnn.lab.stats import percent_short
from ibnn.lab.stats.region import EDGE
from ibnn.lab.theory_checks.expressivity.approximation import Approximation
from ibnn.lab.theory_checks.expressivity.claims import Expansion, Maps
from ibnn.lab.theory_checks.expressivity.regions import Slice

CONSTRUCTIONS = {
    "standard": ("standard", style.STANDARD, "-"),
    "implicit": ("implicit", style.IMPLICIT, "-"),
    "close-up": ("implicit, built from standard", style.IMPLICIT, ":"),
    "composed": ("the paper's construction", style.OTHER, "--"),
}


def draw_expansion(expansions: Sequence[Expansion], found: Sequence[Approximation]) -> Figure:
    """Left: remainder against |lam|. Right: error of an approximation against width."""
    figure, (left, right) = style.figure(2, width=9.6, height=3.8)
    shades = style.greens(len(expansions) + 1)[:0:-1]
    for one, color in zip(expansions, shades, strict=True):
        ratios = np.array(one.lams) / one.threshold
        left.plot(ratios, one.above, "o-", color=color, label=one.layer, ms=5)
        left.plot(ratios, one.below, "o--", color=color, ms=5, mfc="white", lw=1.2)
    ends = np.array([expansions[0].lams[0], expansions[0].lams[-1]]) / expansions[0].threshold
    start = 0.3 * min(float(min(one.above[0], one.below[0])) for one in expansions)
    left.plot(ends, start * (ends / ends[0]) ** 2, "--", color=style.QUIET, lw=1.2)
    left.annotate(
        "λ²", (ends[1], start * (ends[1] / ends[0]) ** 2), xytext=(-22, -8),
        textcoords="offset points", color=style.QUIET,
    )  # fmt: skip
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_title("What the first-order expansion leaves out")
    left.set_xlabel("|λ| / threshold of uniqueness")
    left.set_ylabel("root mean square of z - (y - λ B(y))")
    left.legend(loc="upper left", title="layer (filled: λ > 0, open: λ < 0)", title_fontsize=8)
    _draw_errors(right, found)
    return figure


def _draw_errors(axes: Axes, found: Sequence[Approximation]) -> None:
    widths = sorted({one.width for one in found})
    for kind, (label, color, line) in CONSTRUCTIONS.items():
        chosen = [one for one in found if one.construction == kind]
        values = [[one.largest for one in chosen if one.width == width] for width in widths]
        middle = [median(group) for group in values]
        wide = 4.5 if line == ":" else 1.8  # it lies on the standard line: let both be seen
        alpha = 0.45 if line == ":" else 1.0
        axes.plot(widths, middle, line, color=color, label=label, lw=wide, alpha=alpha)
        if kind in ("standard", "implicit"):
            low, high = [min(g) for g in values], [max(g) for g in values]
            axes.fill_between(widths, low, high, color=color, alpha=0.12, lw=0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.set_title("Approximating a function of the plane")
    axes.set_xlabel("neurons")
    axes.set_ylabel("largest error on the square")
    axes.legend(loc="lower left")


def draw_slices(maps: Maps) -> Figure:
    """Both networks on the plane, and where the implicit one bends."""
    figure, panels = style.figure(3, width=9.6, height=3.2)
    colors = {"standard": style.STANDARD, "implicit": style.IMPLICIT}
    for axes, (name, seen) in zip(panels, maps.slices.items(), strict=False):
        _draw_map(axes, seen, maps.label, colors[name])
        axes.set_title(name if seen.regions is None else f"{name}: {seen.regions:,} cells")
    bends = maps.slices["implicit"].bending
    # where a score is nearly flat the ratio has no bound: cut off, as the arrow of the bar says
    most = float(np.quantile(bends, 0.95)) or 1.0
    shown = panels[2].imshow(
        np.minimum(bends, most), origin="lower", extent=(-EDGE, EDGE, -EDGE, EDGE), cmap="Greens",
        vmin=0, vmax=most, interpolation="bilinear",
    )  # fmt: skip
    panels[2].set_title(f"implicit: bends at {percent_short(float((bends > 0).mean()))} of points")
    bar = figure.colorbar(shown, ax=panels[2], shrink=0.85, pad=0.02, extend="max")
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.set_label("|second derivative| / |first|", fontsize=8)
    for axes in panels:
        for (x, y), its in zip(maps.dots.tolist(), maps.labels, strict=True):
            axes.plot(x, y, "o", color=style.INK, ms=5, mec="white")
            axes.annotate(str(its), (x, y), xytext=(6, -3), textcoords="offset points", fontsize=8)
        style.bare(axes)
        axes.set_xlim(-EDGE, EDGE)
        axes.set_ylim(-EDGE, EDGE)
    return figure


def _draw_map(axes: Axes, seen: Slice, label: int, color: str) -> None:
    margin = seen.margin(label)
    side = len(margin)
    axis = np.linspace(-EDGE, EDGE, side)
    axes.contourf(axis, axis, margin, levels=[0.0, np.inf], colors=[color], alpha=0.15)
    lines = []
    for unit in range(seen.units.shape[-1]):
        field = seen.units[..., unit]
        if field.min() < 0 < field.max():
            lines += contour_generator(axis, axis, field).lines(0.0)
    axes.add_collection(LineCollection(lines, colors=style.QUIET, linewidths=0.5, alpha=0.7))
    if margin.min() < 0 < margin.max():
        axes.contour(axis, axis, margin, levels=[0.0], colors=[color], linewidths=2.2)
