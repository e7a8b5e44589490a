"""The drawings of the capacity experiment."""

import numpy as np
from matplotlib.figure import Figure

from ibnn.lab import data
from ibnn.lab.experiments.capacity.claims import Parts
from ibnn.lab.experiments.capacity.search import Search
from ibnn.lab.experiments.plane import SLOPE
from ibnn.lab.plotting import style
from ibnn.lab.plotting.intervals import draw_dots
from ibnn.lab.plotting.plane import Line, draw_panels
from ibnn.lab.stats import percent


def draw_boundaries(dataset: str, parts: Parts, note: str) -> Figure:
    """The best network of every setting: lam on the left, p on the right."""
    points = data.load(dataset)
    chosen = {search.run.config.lam for search in parts.by_slope.values()}
    at = f"{chosen.pop():g}" if len(chosen) == 1 else "?"
    by_lam, by_slope = sorted(parts.by_lam.items()), sorted(parts.by_slope.items())
    figure = draw_panels(
        "Decision boundaries of the best of many restarts",
        (points.x_train, points.y_train),
        _line(parts.standard, "standard") if parts.standard else None,
        {
            f"λ at slope p = {SLOPE:g}": [_line(s, f"λ = {lam:g}") for lam, s in by_lam],
            f"slope p at λ = {at}": [_line(s, f"p = {slope:g}") for slope, s in by_slope],
        },
    )
    style.footnote(figure, note)
    return figure


def _line(search: Search, name: str) -> Line:
    return search.network(), f"{name}: {percent(search.best)}"


def draw_units(parts: Parts, note: str) -> Figure:
    """Training accuracy of standard networks against their hidden units."""
    title = "How many standard units match three implicit ones"
    figure, (axes,) = style.figure(width=6.4, height=4.4, title=title)
    units = sorted(parts.by_units)
    spread = np.linspace(-0.16, 0.16, 9)  # dots beside each other
    for number in units:
        values = [100 * value for value in parts.by_units[number].train]
        xs = [number + spread[i % len(spread)] for i in range(len(values))]
        axes.scatter(xs, values, s=9, color=style.STANDARD, alpha=0.35, linewidths=0)
    best = [100 * parts.by_units[number].best for number in units]
    middle = [100 * parts.by_units[number].median for number in units]
    axes.plot(units, best, "o-", color=style.STANDARD, label="standard, best", markersize=5)
    axes.plot(units, middle, "--", color=style.STANDARD, linewidth=1.2, label="standard, median")
    if parts.implicit:
        lam = parts.implicit.run.config.lam
        text = f"3 implicit units, λ = {lam:g}: {percent(parts.implicit.best)}"
        axes.axhline(100 * parts.implicit.best, color=style.IMPLICIT, label=text)
    axes.set(xlabel="hidden units", xticks=units, ylabel="training accuracy, %")
    axes.legend(loc="lower right")
    style.footnote(figure, note)
    return figure


def draw_restarts(parts: Parts, note: str) -> Figure:
    """Every restart of the settings with three units as a dot."""
    greens, reds = style.greens(len(parts.by_lam))[::-1], style.reds(len(parts.by_slope))
    groups = [("standard", parts.standard, style.STANDARD)] if parts.standard else []
    for (lam, search), color in zip(sorted(parts.by_lam.items()), greens, strict=True):
        groups.append((f"λ = {lam:g}, p = {SLOPE:g}", search, color))
    for (slope, search), color in zip(sorted(parts.by_slope.items()), reds, strict=True):
        if slope != SLOPE:
            groups.append((f"λ = {search.run.config.lam:g}, p = {slope:g}", search, color))
    figure = draw_dots(
        [(name, search.train, color) for name, search, color in groups],
        "Training accuracy of every restart",
        "training accuracy, %",
        alpha=0.5,
    )
    style.footnote(figure, note)
    return figure
