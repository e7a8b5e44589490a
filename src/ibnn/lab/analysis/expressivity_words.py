"""The sentences and tables of the analysis of expressivity."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from ibnn.lab.analysis.approximation import Error
from ibnn.lab.results import Table
from ibnn.lab.stats import counted, percent_short


def about_layers(curves: Sequence[Any], emulations: Sequence[Any]) -> list[str]:
    """What the expansion leaves out, and the neurons that compute it."""
    powers = [power for curve in curves for power in curve["exponents"]]
    text = [
        "The first-order expansion z = y - lam B(y) leaves a remainder that falls as |lam|^2: the "
        f"exponents measured on {counted(len(curves), 'layer')} are {min(powers):.3f} to "
        f"{max(powers):.3f}."
    ]
    built = [e for e in emulations if e["difference"] is not None]
    if built:
        worst = max(e["difference"] for e in built)
        text.append(
            f"It was built as a network of standard neurons for {counted(len(built), 'layer')}, "
            "D (D + 3)/2 of them instead of the paper's D (D + 2) because sigma is odd: outputs "
            f"differ from the expansion by at most {worst:.1e} (rounding)."
        )
    return text


def about_errors(found: Sequence[Error]) -> list[str]:
    """How well a function of the plane is approximated."""
    width = max(error.width for error in found)

    draws = len({error.seed for error in found})

    def typical(way: str) -> float:
        return median(e.largest for e in found if e.way == way and e.width == width)

    return [
        f"On a function of the plane, {width} random units reach a largest error of "
        f"{typical('standard'):.3f} (standard) and {typical('implicit'):.3f} (implicit), the "
        f"paper's two-layer construction with as many neurons {typical('composed'):.3f}. One "
        "hidden layer is enough: implicit units built from the standard ones give "
        f"{typical('close-up'):.3f} (all medians of {counted(draws, 'draw')})."
    ]


def about_maps(maps: dict[str, Any] | None) -> list[str]:
    """What a plane through three examples shows."""
    if maps is None:
        return []
    regions = {name: slice.regions for name, slice in maps["slices"].items()}
    if None in regions.values():
        return ["The network calls no ReLU: it has no linear regions to count."]
    return [
        f"On a plane through three examples the grid sees {regions['standard']:,} linear regions "
        f"of the standard network; the signs of the implicit network's units cut it into "
        f"{regions['implicit']:,} cells, inside which it bends."
    ]


def table_of_layers(curves: Sequence[Any], emulations: Sequence[Any]) -> Table:
    """One line per implicit layer."""
    rows = []
    for curve, counts in zip(curves, emulations, strict=True):
        difference = counts["difference"]
        rows.append(
            [
                curve["layer"].name,
                f"{counts['units']:,}",
                f"{counts['paper']:,}",
                f"{counts['shared']:,}",
                ", ".join(f"{power:.3f}" for power in curve["exponents"]),
                "not built (too large)" if difference is None else f"{difference:.1e}",
            ]
        )
    columns = ("layer", "D", "D (D + 2)", "D (D + 3)/2", "exponent (+, -)", "emulation differs by")
    return Table("First-order expansion of each layer", columns, rows)


def table_of_maps(maps: dict[str, Any]) -> Table:
    """One line per network."""
    rows = []
    for name, seen in maps["slices"].items():
        curved = seen.curved_fraction(maps["label"])
        rows.append(
            [
                name,
                "-" if seen.regions is None else f"{seen.regions:,}",
                percent_short(float((seen.bending > 0).mean())),
                f"{float(np.median(seen.bending)):.3g}",
                "no boundary here" if curved is None else percent_short(curved),
            ]
        )
    columns = (
        "network",
        "regions",
        "bends at",
        "median |Hessian| / |gradient|",
        "boundary that turns",
    )
    return Table("On a plane through three examples", columns, rows)


def rows_of_curves(curves: Sequence[Any]) -> list[dict[str, Any]]:
    """The remainders, for the CSV."""
    return [
        {"what": "remainder", "layer": curve["layer"].name, "lam": sign * lam, "rms": float(value)}
        for curve in curves
        for sign, values in ((1, curve["above"]), (-1, curve["below"]))
        for lam, value in zip(curve["lams"], values, strict=True)
    ]
