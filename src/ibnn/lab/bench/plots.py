"""The pictures: time against D, the price of a layer under every condition, and by case."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ibnn.lab import files
from ibnn.lab.bench import growth
from ibnn.lab.report.output import image_bytes

Rows = Sequence[dict[str, Any]]
_COLORS = {"native": "tab:blue", "portable": "tab:orange"}


def draw_growth(rows: Rows, path: Path) -> None:
    """Seconds of one row of D units, log-log, with the fitted exponents."""
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for engine in dict.fromkeys(row["engine"] for row in rows):
        own = [row for row in rows if row["engine"] == engine]
        units = [row["units"] for row in own]
        slope = growth.fitted(rows, engine)
        label = engine if slope is None else f"{engine}: exponent {slope:.2f}"
        color = _COLORS.get(engine)
        axes.loglog(units, [row["seconds"] for row in own], "o-", label=label, color=color)
        single = [row["single_row_seconds"] for row in own]
        axes.loglog(units, single, ":", label=f"{engine}, one row alone", color=color)
    axes.set_xlabel("D, units that talk to each other")
    axes.set_ylabel("seconds per row, forward + backward")
    axes.set_title(f"lam {growth.LAM}, std {growth.STD}, tanh, slope 10")
    axes.grid(alpha=0.3)
    axes.legend()
    files.write_bytes(path, image_bytes(figure, "png"))


def draw_layers(rows: Rows, path: Path) -> None:
    """Every condition as a dot: forward + backward as a multiple of the standard layer's."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    names = list(dict.fromkeys(row["engine"] for row in rows))
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for offset, engine in enumerate(names):
        for hard, marker in ((False, "o"), (True, "x")):
            own = [row for row in rows if row["engine"] == engine and row["hard"] == hard]
            if own:
                places = [shapes.index(row["shape"]) + 0.2 * offset for row in own]
                label = engine + (" (lam -1, std 0.3)" if hard else "")
                ratios = [row["ratio_both"] for row in own]
                axes.plot(places, ratios, marker, label=label, color=_COLORS.get(engine))
    axes.axhline(1, color="black", linewidth=0.8)
    axes.axhline(3, color="tab:red", linewidth=0.8, linestyle="--", label="required (native)")
    axes.set_xticks(range(len(shapes)), shapes)
    axes.set_yscale("log")
    axes.set_ylabel("times nn.Conv2d + ReLU, forward + backward")
    axes.legend(fontsize="small")
    files.write_bytes(path, image_bytes(figure, "png"))


def draw_cliffs(rows: Rows, path: Path) -> None:
    """Every case as a line: what it costs as a multiple of its parent, and what is required."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    figure = Figure(figsize=(8, 0.8 + 0.22 * len(cases)), layout="constrained")
    axes = figure.add_subplot()
    shown = {0.1: "tab:cyan", 0.3: "tab:blue", 1.0: "tab:orange", None: "black"}
    for std, color in shown.items():
        own = [row for row in rows if row["std"] == std]
        if own:
            label = "a whole network" if std is None else f"std {std:g}"
            places = [cases.index(row["case"]) for row in own]
            axes.plot([row["ratio"] for row in own], places, "o", color=color, label=label)
    required = {row["case"]: row["required"] for row in rows}
    marks = list(required.values()), [cases.index(case) for case in required]
    axes.plot(*marks, "|", color="tab:red", markersize=10, label="required")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(cases)), cases, fontsize="small")
    axes.set_xticks((1, 2, 3, 5, 10, 20, 50), ("1", "2", "3", "5", "10", "20", "50"))
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("times the parent without implicit bias, processor time of one thread")
    figure.suptitle("What the implicit bias costs, lam -0.1, forward + backward")
    axes.legend(fontsize="small", loc="lower right")
    files.write_bytes(path, image_bytes(figure, "png"))
