"""The drawings of the analysis of memorization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from ibnn.lab.analysis.curvature import linear_law, paper_law, resolvent_law
from ibnn.lab.analysis.law import Ratio
from ibnn.lab.plotting import style

GAP = 1.25  # from one image to the next, in widths

LAWS = (
    (paper_law, "the paper: (1 + λp)²", style.OTHER, "--"),
    (resolvent_law, "1/(1 - λp)²", style.QUIET, ":"),
    (linear_law, "1/(1 - λp)⁴", style.IMPLICIT, "-"),
)


def draw_law(law: Sequence[Ratio], standard: Tensor, implicit: Tensor) -> Figure:
    """Left: the laws and what is measured. Right: curvatures of both networks."""
    figure, (left, right) = style.figure(2, width=9.6, height=3.9)
    low, high = (limit(r.lam_slope for r in law) for limit in (min, max))
    grid = np.linspace(low, high, 400)
    for formula, label, colour, line in LAWS:
        values = np.array([formula(float(s)) for s in grid])
        left.plot(grid, values, line, color=colour, label=label)
    marks: dict[str, Any] = {
        "made to fit": {"marker": "o", "color": style.IMPLICIT, "ms": 7},
        "trained": {"marker": "s", "color": style.INK, "ms": 6, "mfc": "white"},
    }
    for name, mark in marks.items():
        chosen = [r for r in law if r.network == name]
        x, y = [r.lam_slope for r in chosen], [r.curvature for r in chosen]
        left.plot(x, y, ls="", label=f"measured: {name}", **mark)
    left.axhline(1, color=style.QUIET, lw=0.8)
    left.set_yscale("log")
    left.set_ylim(3e-3, 2e3)
    left.set_title("Curvature, implicit over standard")
    left.set_xlabel("λ p")
    left.legend(loc="upper left")
    _draw_histograms(right, standard, implicit)
    return figure


def _draw_histograms(axes: Axes, standard: Tensor, implicit: Tensor) -> None:
    tiny = np.finfo(np.float32).tiny
    logs = [np.log10(np.maximum(v.double().numpy(), tiny)) for v in (standard, implicit)]
    edges = np.linspace(min(map(np.min, logs)), max(map(np.max, logs)) + 1e-9, 41)
    names = (("standard twin", style.STANDARD), ("this network", style.IMPLICIT))
    for values, (name, colour) in zip(logs, names, strict=True):
        axes.hist(values, edges, color=colour, alpha=0.35, label=name)
        axes.hist(values, edges, color=colour, histtype="step", lw=1.4)
        axes.axvline(float(np.median(values)), color=colour, lw=1.2, ls="--")
    axes.set_title("Around the examples (dashed: medians)")
    axes.set_xlabel("log₁₀ of the curvature of the loss, |H|²")
    axes.set_ylabel("examples")
    axes.legend(loc="upper left")


def draw_ranking(rows: Sequence[tuple[str, str, Tensor, Tensor, Tensor]]) -> Figure:
    """One strip of images per network and end of the ranking."""
    figure, panels = style.figure(1, len(rows), width=9.6, height=0.98 * len(rows))
    colours = {"standard": style.STANDARD, "implicit": style.IMPLICIT}
    longest = max(len(row[2]) for row in rows)
    for axes, (name, which, images, labels, said) in zip(panels, rows, strict=True):
        style.bare(axes)
        strip, middles = _strip(images)
        axes.imshow(strip, cmap="gray_r", vmin=0, vmax=1)
        for middle, label, answer in zip(middles, labels.tolist(), said.tolist(), strict=True):
            text, colour = str(label), style.INK
            if answer != label:
                text, colour = f"{label} → {answer}", style.OTHER
            axes.annotate(
                text, (middle, len(strip) - 0.5), xytext=(0, -3), textcoords="offset points",
                ha="center", va="top", fontsize=8, color=colour, annotation_clip=False,
            )  # fmt: skip
        axes.set_xlim(-0.5, longest * (middles[0] * 2 + 1) * GAP - 0.5)
        axes.set_ylabel(f"{name}\n{which}", color=colours[name], fontsize=9, fontweight="bold")
    return figure


def _strip(images: Tensor) -> tuple[NDArray[np.float32], list[float]]:
    """Images (n, channels, h, w) side by side on white, and where the middle of each is."""
    width = images.shape[-1]
    step = round(width * GAP)
    # 0 is white where there is one channel (a grey map, reversed), 1 where there are three
    grey = images.shape[1] == 1
    shape = (images.shape[-2], step * len(images), images.shape[1])
    strip = np.full(shape, 0.0 if grey else 1.0, dtype=np.float32)
    for number, image in enumerate(images):
        shown = image.movedim(0, -1).clamp(0, 1).float().numpy()
        strip[:, number * step : number * step + width] = shown
    middles = [number * step + (width - 1) / 2 for number in range(len(images))]
    return (strip[..., 0] if grey else strip), middles
