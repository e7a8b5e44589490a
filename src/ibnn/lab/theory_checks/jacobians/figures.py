"""Figures about Jacobians: the spectrum of K_inf, the paper's inequality, norms over images."""

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from torch import Tensor

from ibnn.lab.plotting.style import IMPLICIT, INK, OTHER, QUIET, STANDARD, figure, greens
from ibnn.lab.theory_checks.jacobians.claims import Spectrum
from ibnn.lab.theory_checks.jacobians.ratios import ALONE, NETWORK, OWN_MASKS, SAME_MASK, Ratios

_SHORT = {
    ALONE: "F alone",
    SAME_MASK: "F, ReLU,\nsame mask",
    OWN_MASKS: "F, ReLU,\nown masks",
    NETWORK: "network",
}


def draw_spectrum(spectra: Sequence[Spectrum], stretches: dict[str, Tensor]) -> Figure:
    """Left: eigenvalues of K_inf, layer by layer. Right: how single directions are compressed."""
    made, (left, right) = figure(2, width=9.2, height=3.4)
    for color, (name, values, bounds, _) in zip(greens(len(spectra)), spectra, strict=True):
        place = torch.linspace(0, 100, values.shape[1])
        low, middle, high = values.quantile(torch.tensor([0.0, 0.5, 1.0]).to(values), dim=0)
        left.fill_between(place, low, high, color=color, alpha=0.25, linewidth=0)
        left.plot(place, middle, color=color, label=name)
        for bound in bounds:
            left.axhline(bound, color=color, linestyle=":", linewidth=1)
    left.axhline(1, color=QUIET, linewidth=0.8)
    left.set_xlabel("eigenvalues, smallest to largest (%)")
    left.set_ylabel("eigenvalue of K_inf")
    left.set_title("Spectrum of K_inf, with its bounds")
    left.legend(loc="best")
    for color, (name, values) in zip((IMPLICIT, OTHER), stretches.items(), strict=True):
        right.hist(
            values.numpy(), bins=30, histtype="stepfilled", alpha=0.45, color=color, label=name
        )
    right.axvline(1, color=QUIET, linewidth=1)
    right.set_xlabel("|K_inf dy| / |dy|")
    right.set_ylabel("directions")
    right.set_title("How much single directions are kept")
    right.set_ylim(0, 1.25 * right.get_ylim()[1])  # room for the legend
    right.legend(loc="upper left")
    return made


def draw_ratios(ratios: Sequence[Ratios]) -> Figure:
    """Where |D IBNN dx| <= |D SM dx| holds (below the line) and where it does not."""
    groups: dict[str, list[Ratios]] = {}
    for ratio in ratios:
        place = "" if ratio.what == NETWORK else f"\n{ratio.where}"
        groups.setdefault(_SHORT[ratio.what] + place, []).append(ratio)
    made, (axes,) = figure(1, width=9.2, height=3.8)
    names = list(dict.fromkeys(ratio.direction for ratio in ratios))
    colors = dict(zip(names, (IMPLICIT, OTHER, INK), strict=True))
    noise = torch.Generator().manual_seed(0)
    for place, members in enumerate(groups.values()):
        for number, ratio in enumerate(members):
            values = ratio.known()
            values = values[values.isfinite() & (values > 0)]
            middle = place + 0.26 * (number - (len(members) - 1) / 2)
            spread = (torch.rand(len(values), generator=noise) - 0.5) * 0.16
            look = {"s": 7, "alpha": 0.5, "linewidths": 0, "color": colors[ratio.direction]}
            axes.scatter(middle + spread, values, **look)
    axes.axhline(1, color=INK, linewidth=1)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 4, 6, 8)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(range(len(groups)), list(groups), fontsize=8)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("implicit / standard")
    axes.set_title("The paper's inequality, image by image: it holds below the line")
    for name, color in colors.items():
        axes.scatter([], [], s=20, color=color, label=name)
    axes.legend(loc="upper left", ncols=len(names), frameon=True, edgecolor="none")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.15)  # room for the legend
    return made


def draw_norms(standard: dict[str, Tensor], implicit: dict[str, Tensor]) -> Figure:
    """The distribution over images of each norm, both neurons."""
    made, panels = figure(len(standard), width=9.2, height=3.2)
    for axes, (name, ours) in zip(panels, implicit.items(), strict=True):
        theirs = standard[name]
        both = torch.cat([ours, theirs])
        edges = torch.linspace(float(both.min()), float(both.max()) + 1e-12, 31).tolist()
        for values, color, label in (
            (theirs, STANDARD, "standard"),
            (ours, IMPLICIT, "implicit"),
        ):
            middle = float(values.median())
            axes.hist(
                values.numpy(),
                bins=edges,
                color=color,
                alpha=0.5,
                histtype="stepfilled",
                label=f"{label}, median {middle:.3g}",
            )
            axes.axvline(middle, ymax=0.78, color=color, linewidth=1.5)  # below the legend
        axes.set_title(f"{name.capitalize()} norm of d logits / d image")
        axes.set_xlabel(f"{name} norm")
        axes.set_ylabel("images")
        axes.legend(loc="upper right")
        axes.set_ylim(0, axes.get_ylim()[1] * 1.25)
    return made
