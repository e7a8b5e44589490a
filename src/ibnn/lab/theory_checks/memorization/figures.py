"""Figures about memorization: curvature against its formulas, and images by curvature."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from ibnn.lab.plotting import style
from ibnn.lab.theory_checks.memorization.curvature import Curvatures
from ibnn.lab.theory_checks.memorization.scaling import (
    SCALINGS,
    CurvatureRatio,
    paper_scaling,
)

GAP = 1.25  # from one image to the next, in widths

# the paper's formula, its resolvent, and the one its assumptions lead to
LOOKS = ((style.OTHER, "--"), (style.QUIET, ":"), (style.IMPLICIT, "-"))
MARKS: dict[str, dict[str, Any]] = {
    "ideal": {"marker": "o", "color": style.IMPLICIT, "ms": 7},
    "trained": {"marker": "s", "color": style.INK, "ms": 6, "mfc": "white"},
}


def draw_scaling(ratios: Sequence[CurvatureRatio], seen: Curvatures) -> Figure:
    """Left: the formulas and what is measured. Right: curvatures of both networks."""
    figure, (left, right) = style.figure(2, width=9.6, height=3.9)
    low, high = (limit(r.lam_slope for r in ratios) for limit in (min, max))
    grid = np.linspace(low, high, 400)
    for (name, formula), (color, line) in zip(SCALINGS.items(), LOOKS, strict=True):
        values = np.array([formula(float(s)) for s in grid])
        label = f"the paper: {name}" if formula is paper_scaling else name
        left.plot(grid, values, line, color=color, label=label)
    for name, mark in MARKS.items():
        chosen = [r for r in ratios if r.network == name]
        x, y = [r.lam_slope for r in chosen], [r.curvature for r in chosen]
        left.plot(x, y, ls="", label=f"measured: {name}", **mark)
    left.axhline(1, color=style.QUIET, lw=0.8)
    left.set_yscale("log")
    measured = [r.curvature for r in ratios]
    left.set_ylim(min(3e-3, 0.5 * min(measured)), max(2e3, 2 * max(measured)))
    left.set_title("Curvature, implicit over standard")
    left.set_xlabel("λp")
    left.legend(loc="upper left")
    _draw_histograms(right, seen)
    return figure


def _draw_histograms(axes: Axes, seen: Curvatures) -> None:
    tiny = np.finfo(np.float32).tiny
    logs = [np.log10(np.maximum(v.double().numpy(), tiny)) for v in (seen.standard, seen.implicit)]
    edges = np.linspace(min(map(np.min, logs)), max(map(np.max, logs)) + 1e-9, 41)
    names = (("without implicit bias", style.STANDARD), ("this network", style.IMPLICIT))
    for values, (name, color) in zip(logs, names, strict=True):
        axes.hist(values, edges, color=color, alpha=0.35, label=name)
        axes.hist(values, edges, color=color, histtype="step", lw=1.4)
        axes.axvline(float(np.median(values)), color=color, lw=1.2, ls="--")
    axes.set_title("Around the examples (dashed: medians)")
    axes.set_xlabel("log₁₀ of the curvature of the loss, |H|²")
    axes.set_ylabel("examples")
    axes.legend(loc="upper left")


def draw_ranking(rows: Sequence[tuple[str, str, Tensor, Tensor, Tensor]]) -> Figure:
    """One strip of images per network and end of the ranking."""
    figure, panels = style.figure(1, len(rows), width=9.6, height=0.98 * len(rows))
    colors = {"standard": style.STANDARD, "implicit": style.IMPLICIT}
    longest = max(len(row[2]) for row in rows)
    for axes, (name, which, images, labels, said) in zip(panels, rows, strict=True):
        style.bare(axes)
        strip, middles = _strip(images)
        axes.imshow(strip, cmap="gray_r", vmin=0, vmax=1)
        for middle, label, answer in zip(middles, labels.tolist(), said.tolist(), strict=True):
            text, color = str(label), style.INK
            if answer != label:
                text, color = f"{label} → {answer}", style.OTHER
            axes.annotate(
                text, (middle, len(strip) - 0.5), xytext=(0, -3), textcoords="offset points",
                ha="center", va="top", fontsize=8, color=color, annotation_clip=False,
            )  # fmt: skip
        axes.set_xlim(-0.5, longest * (middles[0] * 2 + 1) * GAP - 0.5)
        axes.set_ylabel(f"{name}\n{which}", color=colors[name], fontsize=9, fontweight="bold")
    return figure


def _strip(images: Tensor) -> tuple[NDArray[np.float32], list[float]]:
    """Images (n, channels, h, w) side by side on white, and where the middle of each is."""
    width = images.shape[-1]
    step = round(width * GAP)
    # 0 is white where there is one channel (a gray map, reversed), 1 where there are three
    gray = images.shape[1] == 1
    shape = (images.shape[-2], step * len(images), images.shape[1])
    strip = np.full(shape, 0.0 if gray else 1.0, dtype=np.float32)
    for number, image in enumerate(images):
        shown = image.movedim(0, -1).clamp(0, 1).float().cpu().numpy()
        strip[:, number * step : number * step + width] = shown
    middles = [number * step + (width - 1) / 2 for number in range(len(images))]
    return (strip[..., 0] if gray else strip), middles
