"""Expressivity: the expansion in lam, universal approximation, and linear regions on a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from ibnn.coupling import Dense, Uniform
from ibnn.lab.analysis import expressivity_figures as figures
from ibnn.lab.analysis import expressivity_words as words
from ibnn.lab.analysis.approximation import errors
from ibnn.lab.analysis.first_order import emulate, expansion, exponent, remainders
from ibnn.lab.analysis.preactivations import Layer, double, layers_of
from ibnn.lab.analysis.regions import Plane, look
from ibnn.lab.analysis.section import Progress, Section, Subject
from ibnn.lab.results import Picture
from ibnn.lab.training.seeds import generator

SHARES = (0.003, 0.01, 0.03, 0.1, 0.3, 0.9)  # lam as shares of the threshold, both signs
FITTED = 4  # of them, the smallest, give the exponent
MOST_WEIGHTS = 4_000_000  # of an emulating network that is really built
EXAMPLES = 16
LAM = -0.2  # where the subject's own is zero


def section(subject: Subject, progress: Progress) -> Section | None:
    """What the paper says about expressivity, measured on this network and on the plane."""
    steps = ("expansion in lam", "approximation of a function", "linear regions")
    progress(0, len(steps), steps[0])
    network, twin = double(subject.network), double(subject.twin)
    layers = layers_of(network, twin, subject.x[:EXAMPLES].double())
    curves = [_curve(layer) for layer in layers]
    emulations = [_emulation(layer) for layer in layers]
    progress(1, len(steps), steps[1])
    lam = lam_of(layers)
    found = list(_approximations(subject, lam, float(layers[0].slope.max())))
    progress(2, len(steps), steps[2])
    maps = _maps(subject)
    progress(3, len(steps), "")
    return Section(
        "expressivity",
        "Expressivity",
        [
            *words.about_layers(curves, emulations),
            *words.about_errors(found),
            *words.about_maps(maps),
        ],
        [
            Picture(
                "expressivity-expansion",
                figures.draw_expansion(curves, found),
                "Left: what the first-order expansion leaves out, for every implicit layer at "
                "positive (filled) and negative (open) lam; the dashed line has slope 2. Right: "
                "error of the best output weights on random units, against width; lines are "
                "medians over draws.",
            ),
            *(
                [
                    Picture(
                        "expressivity-regions",
                        figures.draw_slices(maps),
                        "A plane through three training examples (dots). Thin lines: where a unit "
                        "changes sign; thick line: the boundary of the first example's class. "
                        "Inside a cell the standard network is linear, the implicit one bends.",
                    )
                ]
                if maps
                else []
            ),
        ],
        [words.table_of_layers(curves, emulations), *([words.table_of_maps(maps)] if maps else [])],
        [*words.rows_of_curves(curves), *({"what": "approximation", **asdict(e)} for e in found)],
    )


def lam_of(layers: Sequence[Layer]) -> float:
    """One lam to speak of: the first layer's, or -0.2 where it is zero.

    It is for uniform weights, where the threshold is 1/p: at most 0.9 of that, so that it stays
    below it with one unit more (stealth attack).
    """
    lam = float(layers[0].lam.mean())
    if abs(lam) <= 1e-3 * layers[0].threshold:
        return LAM
    return min(lam, 0.9 / float(layers[0].slope.max()))


def _curve(layer: Layer) -> dict[str, Any]:
    lams = [share * layer.threshold for share in SHARES]
    above, below = remainders(layer, lams), remainders(layer, [-lam for lam in lams])
    powers = [exponent(lams[:FITTED], values[:FITTED]) for values in (above, below)]
    return {"layer": layer, "lams": lams, "above": above, "below": below, "exponents": powers}


def _emulation(layer: Layer) -> dict[str, Any]:
    """How many standard neurons the expansion takes; the largest difference if it was built."""
    units, inputs = layer.units, layer.inputs[0].numel()
    counts = {"units": units, "paper": units * (units + 2), "shared": units * (units + 3) // 2}
    if not isinstance(layer.coupling, (Uniform, Dense)) or units**2 * inputs > MOST_WEIGHTS:
        return {**counts, "difference": None}
    rows_per_example = len(layer.rows()) // len(layer.y)
    wanted = layer.rows(
        expansion(layer.y, layer.lam, layer.slope, coupling=layer.coupling, sigma=layer.sigma)
    )[::rows_per_example]
    with torch.no_grad():
        made = emulate(layer, shared_pairs=True)(layer.inputs.flatten(1))
    return {**counts, "difference": float((made - wanted).abs().max())}


def _approximations(subject: Subject, lam: float, slope: float):
    widths, seeds = ((8, 32, 128), 2) if subject.quick else ((8, 16, 32, 64, 128, 256), 5)
    return errors([lam], widths, range(subject.seed, subject.seed + seeds), slope)


def _maps(subject: Subject) -> dict[str, Any] | None:
    """Both networks on a plane through three examples, of different classes where there are."""
    chosen = _three(subject)
    if chosen is None:
        return None
    label = int(subject.y[chosen[0]])
    plane = Plane.through(subject.x[chosen])
    sides = (81, 25) if subject.quick else (161, 51)
    slices = {
        name: look(network, plane, label, *sides)
        for name, network in (("standard", subject.twin), ("implicit", subject.network))
    }
    return {
        "slices": slices,
        "label": label,
        "dots": plane.coordinates(subject.x[chosen]),
        "labels": subject.y[chosen].tolist(),
    }


def _three(subject: Subject) -> list[int] | None:
    """Three examples that span a plane, of as many classes as there are."""
    order = torch.randperm(len(subject.y), generator=generator(subject.seed, "plane")).tolist()
    fresh: list[int] = []
    for index in order:
        if subject.y[index] not in subject.y[fresh]:
            fresh.append(index)
    chosen = [*fresh, *(index for index in order if index not in fresh)][:3]
    return chosen if len(chosen) == 3 else None
