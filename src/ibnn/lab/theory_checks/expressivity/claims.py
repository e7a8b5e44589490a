"""What the measurements say about expressivity: claims, notes, tables, rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from torch import Tensor

from ibnn.lab.results import Answer, Claim, Table
from ibnn.lab.stats import counted, percent_short
from ibnn.lab.theory_checks.expressivity.approximation import Approximation
from ibnn.lab.theory_checks.expressivity.regions import Slice

# by how much a fitted exponent may miss 2: at 0.1 T the third order is a tenth of the second
EXPONENT_OFF = 0.05
SAME_OUTPUT = 1e-9  # of a float64 network against the formula it computes: rounding is 1e-14


@dataclass(frozen=True)
class Expansion:
    """The first-order expansion of one layer: its remainder over lam, and its emulation."""

    layer: str
    units: int
    threshold: float
    lams: Sequence[float]
    above: Tensor  # root mean square of the remainder at lam
    below: Tensor  # at -lam
    exponents: Sequence[float]  # of both
    difference: float | None  # of the standard neurons that compute it; None: too many to build

    @property
    def paper(self) -> int:
        """Standard neurons, as the paper counts them."""
        return self.units * (self.units + 2)

    @property
    def shared(self) -> int:
        """Standard neurons, where the pairs (i, k) and (k, i) share one."""
        return self.units * (self.units + 3) // 2


@dataclass(frozen=True)
class Maps:
    """Both networks on a plane through three examples."""

    slices: Mapping[str, Slice]  # "standard" and "implicit"
    label: int  # whose region is drawn
    dots: Tensor  # where the examples are
    labels: Sequence[int]


def claims(expansions: Sequence[Expansion], found: Sequence[Approximation]) -> list[Claim]:
    """The paper's statements about one implicit layer."""
    return [_first_order(expansions), _neurons(expansions), _composed(found), _single(found)]


def _first_order(expansions: Sequence[Expansion]) -> Claim:
    powers = [power for one in expansions for power in one.exponents]
    second = all(abs(power - 2) <= EXPONENT_OFF for power in powers)
    return Claim(
        "y - λ B(y) is the layer up to second order in λ.",
        f"The remainder falls as |λ| to the power of {min(powers):.3f} to {max(powers):.3f} "
        f"({counted(len(expansions), 'layer')}, both signs of λ).",
        "yes" if second else "no",
    )


def _neurons(expansions: Sequence[Expansion]) -> Claim:
    paper = "Even that expansion needs at least D (D + 2) standard neurons."
    built = [one for one in expansions if one.difference is not None]
    if not built:
        return Claim(paper, "Every layer is too large for such a network.", "not decided")
    worst = max(built, key=lambda one: one.difference or 0.0)
    assert worst.difference is not None
    fewer = worst.difference <= SAME_OUTPUT
    return Claim(
        paper,
        f"Built from D (D + 3)/2 ({built[0].shared:,} instead of {built[0].paper:,} at D = "
        f"{built[0].units}) for {counted(len(built), 'layer')}: outputs differ from the expansion "
        f"by at most {worst.difference:.1e}.",
        "no" if fewer else "not decided",
    )


def _composed(found: Sequence[Approximation]) -> Claim:
    few, many = (_typical(found, "composed", pick) for pick in (min, max))
    return Claim(
        "An implicit layer and a standard one after it approximate any continuous function.",
        f"A wave with a ridge: the largest error of the paper's construction goes from {few:.3f} "
        f"with {_width(found, min)} neurons to {many:.3f} with {_width(found, max)}.",
        _shrinks(few, many),
    )


def _single(found: Sequence[Approximation]) -> Claim:
    few, many = (_typical(found, "close-up", pick) for pick in (min, max))
    standard = _typical(found, "standard", max)
    return Claim(
        "A single-layer IBNN approximates any mapping.",
        f"One hidden layer, built from the standard one: {few:.3f} with {_width(found, min)} "
        f"neurons, {many:.3f} with {_width(found, max)}; the standard one {standard:.3f}.",
        _shrinks(few, many),
    )


def _shrinks(few: float, many: float) -> Answer:
    """A few widths prove no theorem; an error that does not even halve speaks against it."""
    return "yes" if many <= few / 2 else "not decided"


def _width(found: Sequence[Approximation], pick: Any) -> int:
    return pick(one.width for one in found)


def _typical(found: Sequence[Approximation], construction: str, pick: Any) -> float:
    """The median over draws of the largest error, at the smallest or largest width."""
    width = _width(found, pick)
    return median(
        one.largest for one in found if one.construction == construction and one.width == width
    )


def about_errors(found: Sequence[Approximation]) -> str:
    """Both neurons at equal width."""
    standard, implicit = (_typical(found, kind, max) for kind in ("standard", "implicit"))
    draws = len({one.seed for one in found})
    return (
        f"With {_width(found, max)} random units and the best output weights, the largest error on "
        f"the plane is {standard:.3f} (standard) and {implicit:.3f} (implicit), medians of "
        f"{counted(draws, 'draw')}."
    )


def about_maps(maps: Maps | None) -> list[str]:
    """What a plane through three examples shows."""
    if maps is None:
        return []
    told = []
    for name, seen in maps.slices.items():
        if seen.regions is None:
            return ["The network calls no ReLU: it has no linear regions to count."]
        bent = percent_short(float((seen.bending > 0).mean()))
        told.append(
            f"the signs of the {name} network's units cut it into {seen.regions:,} cells, and the "
            f"network bends at {bent} of the points"
        )
    return [f"On a plane through three examples {'; '.join(told)}."]


def table_of_layers(expansions: Sequence[Expansion]) -> Table:
    rows = [
        {
            "layer": one.layer,
            "D": f"{one.units:,}",
            "D (D + 2)": f"{one.paper:,}",
            "D (D + 3)/2": f"{one.shared:,}",
            "exponent (+, -)": ", ".join(f"{power:.3f}" for power in one.exponents),
            "emulation differs by": "not built (too large)"
            if one.difference is None
            else f"{one.difference:.1e}",
        }
        for one in expansions
    ]
    return Table.of("First-order expansion of each layer", rows)


def tables_of_maps(maps: Maps | None) -> list[Table]:
    """One line per network, where there is a plane."""
    if maps is None:
        return []
    rows = []
    for name, seen in maps.slices.items():
        curved = seen.curved_fraction(maps.label)
        rows.append(
            {
                "network": name,
                "cells": "-" if seen.regions is None else f"{seen.regions:,}",
                "bends at": percent_short(float((seen.bending > 0).mean())),
                "median |Hessian| / |gradient|": f"{float(np.median(seen.bending)):.3g}",
                "boundary bends": "no boundary here" if curved is None else percent_short(curved),
            }
        )
    return [Table.of("On a plane through three examples", rows)]


def rows_of(expansions: Sequence[Expansion]) -> list[dict[str, Any]]:
    """The remainders, for the CSV."""
    return [
        {"what": "remainder", "layer": one.layer, "lam": sign * lam, "rms": float(value)}
        for one in expansions
        for sign, values in ((1, one.above), (-1, one.below))
        for lam, value in zip(one.lams, values, strict=True)
    ]
