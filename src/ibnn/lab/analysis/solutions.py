"""Section: how many solutions an input has, below and above the threshold of uniqueness."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import ibnn
from ibnn.lab.analysis import solutions_words as words
from ibnn.lab.analysis.layers import LayerState, capture
from ibnn.lab.analysis.section import Progress, Section, Subject
from ibnn.lab.analysis.solutions_certificate import certify
from ibnn.lab.analysis.solutions_figures import draw_certificates, draw_paths
from ibnn.lab.analysis.solutions_find import Solutions, find_solutions
from ibnn.lab.analysis.solutions_paths import follow_paths
from ibnn.lab.results import Picture
from ibnn.lab.training.seeds import generator

SHARES = (0.5, 0.95, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0)
SEARCHED = (0.95, 1.5, 2.0, 3.0)
LOOP_SHARE = 3.0
MOST_ROWS = 24
MOST_UNITS = 128  # of a uniform row: above the threshold every step takes all pairs of units


def section(subject: Subject, progress: Progress) -> Section | None:
    """Thresholds, certificates for single inputs, and what happens beyond them."""
    shares = SHARES[1::2] if subject.quick else SHARES
    searched = SEARCHED[1::2] if subject.quick else SEARCHED
    total = len(shares) + len(searched) + 2
    states = capture(subject.network, subject.twin, subject.x[:16])
    first = states[0]
    settings = _settings(first)
    rows = _rows(first, subject.seed)
    certificates = []
    for number, share in enumerate(shares):
        progress(number, total, f"certificates at {share:g} T")
        certificates.append(_certificates(first, rows, settings, share))
    found: dict[float, Solutions] = {}
    threshold = first.threshold()
    for number, share in enumerate(searched):
        progress(len(shares) + number, total, f"solutions at {share:g} T")
        found[share] = find_solutions(
            rows[0], share * threshold, **settings, starts=8 if subject.quick else 32
        )
    progress(total - 2, total, "path dependence")
    paths = follow_paths(
        rows[0],
        rows[-1],
        threshold,
        settings,
        highest=1.2 * max(SEARCHED),
        share=LOOP_SHARE,
        steps=21 if subject.quick else 41,
    )
    progress(total, total, "solutions")
    pictures = [
        Picture(
            "solutions-certificates",
            draw_certificates(certificates),
            f"Layer {first.name} with its own inputs and any lam: {len(rows)} rows of "
            f"{rows[0].numel()} units. The threshold T is where uniqueness stops being proven for "
            "every input; a certificate is about one input, and may reach further. Band: all rows.",
        ),
        Picture(
            "solutions-paths",
            draw_paths(paths, _pushed(found, rows[0])),
            "How far a unit is pushed. Left: one row, its solution followed as lam rises and then "
            "falls; dots are solutions that other starts lead to (hollow: unstable). Right: "
            "the input moves from one image to another and back at a lam above the threshold; "
            "where the two curves differ, the neuron remembers where it came from.",
        ),
    ]
    return Section(
        "solutions",
        "Solutions: existence, uniqueness, path dependence",
        words.about(states, certificates, found, paths, rows[0].numel()),
        pictures,
        [words.table_of_thresholds(states), words.table_of_solutions(found)],
        [*certificates, *words.rows_of(found)],
    )


def _rows(state: LayerState, seed: int) -> Tensor:
    """Rows of y in the coupling's own shape of units, from all over the images; of long rows of
    uniform weights some units, drawn at random: a smaller layer with the same inputs."""
    operator = state.operator()
    rows = operator.flatten(state.y).double()
    # neighbouring rows are channels of one image: spread over the images
    chosen = torch.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows))).round().long()
    rows = rows[chosen]
    if state.layer.coupling.kernel != "uniform":
        return rows.reshape(-1, *operator.unit_shape)
    kept = torch.randperm(operator.units, generator=generator(seed, "units"))[:MOST_UNITS]
    return rows[:, kept.sort().values]


def _settings(state: LayerState) -> dict[str, Any]:
    """Slope, coupling and sigma for rows that stand alone (the units are the last dims)."""
    coupling = state.layer.coupling
    if coupling.kernel == "uniform":
        coupling = ibnn.Uniform(-1)
    slope = max(slope for _, slope in state.flat_settings())
    return {"slope": slope, "coupling": coupling, "sigma": state.layer.sigma}


def _certificates(
    state: LayerState, rows: Tensor, settings: dict[str, Any], share: float
) -> dict[str, Any]:
    lam = share * state.threshold()
    solved = ibnn.solve(rows, lam, **settings, on_failure="ignore")
    certificate = certify(rows, solved.value, lam, **settings)
    smallest, everywhere = certificate.smallest, certificate.everywhere
    return {
        "kind": "certificate",
        "layer": state.name,
        "lam": lam,
        "lam_over_threshold": share,
        "smallest_lowest": float(smallest.min()),
        "smallest_median": float(smallest.median()),
        "smallest_highest": float(smallest.max()),
        "everywhere_median": float(everywhere.median()),
        "stable_share": float(certificate.stable.double().mean()),
        "unique_share": float(certificate.unique.double().mean()),
        "lanczos_error": float(certificate.error.max()),
    }


def _pushed(found: dict[float, Solutions], y: Tensor) -> dict[float, tuple[Tensor, Tensor]]:
    """z - y of every solution found, and which are stable."""
    return {
        share: ((solutions.values - y).reshape(len(solutions), -1), solutions.stable)
        for share, solutions in found.items()
    }
