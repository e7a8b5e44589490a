"""The sentences and tables of the analysis of expressivity."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from ibnn.lab.analysis.approximation import Error
from ibnn.lab.experiments.experiment import Table


def about_layers(curves: Sequence[Any], emulations: Sequence[Any]) -> list[str]:
    """What the expansion leaves out, and the neurons that compute it."""
    powers = [power for curve in curves for power in curve["exponents"]]
    text = [
        f"The expansion y - lam B(y) leaves a remainder that falls as |lam|^{min(powers):.2f} to "
        f"|lam|^{max(powers):.2f} over {len(curves)} layer(s) (2 is predicted)."
    ]
    built = [e for e in emulations if e["difference"] is not None]
    if built:
        worst = max(e["difference"] for e in built)
        text.append(
            f"It was built as a network of standard neurons for {len(built)} layer(s), D (D + 3)/2 "
            f"of them instead of the paper's D (D + 2) because sigma is odd: outputs differ from "
            f"the expansion by at most {worst:.1e} (rounding)."
        )
    return text


def about_errors(found: Sequence[Error]) -> list[str]:
    """How well a function of the plane is approximated."""
    width = max(error.width for error in found)

    def typical(way: str) -> float:
        return median(e.largest for e in found if e.way == way and e.width == width)

    return [
        f"On a function of the plane, {width} random units reach a largest error of "
        f"{typical('standard'):.3f} (standard) and {typical('implicit'):.3f} (implicit), the "
        f"paper's two-layer construction with as many neurons {typical('composed'):.3f}. One "
        "hidden layer is enough: implicit units built from the standard ones give "
        f"{typical('close-up'):.3f}."
    ]


def about_maps(maps: dict[str, Any] | None) -> list[str]:
    """What a plane through three examples shows."""
    if maps is None:
        return []
    regions = {name: slice.regions for name, slice in maps["slices"].items()}
    if None in regions.values():
        return ["The network calls no ReLU: it has no linear regions to count."]
    return [
        f"On a plane through three examples the grid sees {regions['standard']} linear regions of "
        f"the standard network; the signs of the implicit network's units cut it into "
        f"{regions['implicit']} cells, inside which it bends."
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
        share = seen.curved_share(maps["label"])
        rows.append(
            [
                name,
                "-" if seen.regions is None else str(seen.regions),
                f"{float((seen.bending > 0).mean()):.0%}",
                f"{float(np.median(seen.bending)):.3g}",
                "no boundary here" if share is None else f"{share:.0%}",
            ]
        )
    columns = (
        "network",
        "regions",
        "share of points where it bends",
        "median |Hessian| / |gradient|",
        "curved share of the boundary",
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
