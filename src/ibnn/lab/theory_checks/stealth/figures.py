"""The figure of the stealth attack: how often it goes undetected."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ibnn.lab.plotting import style
from ibnn.lab.stats import percent_short
from ibnn.lab.theory_checks.stealth.verification import AttackResult, counts

# attacks by the look of their line, networks by color
LINES = {
    "optimized": ("-", 2.2, "optimized"),
    "threshold": ("--", 1.4, "threshold (Tyukin et al.)"),
    "no threshold": (":", 1.6, "no threshold (as in the paper)"),
}
TOLERANCES = np.logspace(-5, 0.3, 200)


def draw(results: Sequence[AttackResult], tolerance: float) -> Figure:
    """Left: undetected against verification examples. Right: against tolerance."""
    figure, (left, right) = style.figure(2, width=9.6, height=4.1, sharey=True)
    for result in results:
        line, width, _ = LINES[result.attack]
        # lines coincide where the neuron makes no difference: the standard one lies broad below
        broad, alpha = (3.0, 0.4) if result.lam is None else (0.0, 1.0)
        look = {"ls": line, "lw": width + broad, "color": _color(result), "alpha": alpha}
        n = counts(result.pool)
        left.plot(n, [100 * result.undetected(k, tolerance) for k in n], **look)
        found = [100 * result.undetected(tolerance=e) for e in TOLERANCES]
        right.plot(TOLERANCES, found, **look)
        if result.attack == "optimized" and result.bound:
            right.axvline(result.bound, color=_color(result), lw=0.8)
    left.set_xscale("log")
    left.set_title(f"Undetected at a tolerance of {percent_short(tolerance)} of the gain")
    left.set_xlabel("verification examples")
    left.set_ylabel("attacks that stay undetected, %")
    left.set_ylim(-4, 104)
    right.set_xscale("log")
    right.axvline(tolerance, color=style.QUIET, lw=0.8, ls=":")
    right.set_title("Undetected in the whole pool")
    right.set_xlabel("the owner's tolerance, as a fraction of the gain")
    _legend(left, results)
    return figure


def _color(result: AttackResult) -> str:
    if result.lam is None:
        return style.STANDARD
    return style.greens(4)[0] if result.rescaled else style.IMPLICIT


def _legend(axes: Axes, results: Sequence[AttackResult]) -> None:
    networks = {
        r.network if r.lam is None else f"{r.network}, λ = {r.lam:.3g}": _color(r) for r in results
    }
    handles = [Line2D([], [], color=color, lw=2.2, label=name) for name, color in networks.items()]
    for line, width, label in LINES.values():
        handles.append(Line2D([], [], color=style.INK, ls=line, lw=width, label=label))
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=3)  # type: ignore[union-attr]
