"""Section: how many solutions an input has, below and above the threshold of uniqueness."""

import copy
from typing import Any

import torch
from torch import Tensor

import ibnn
from ibnn.lab.results import Picture
from ibnn.lab.theory_checks.check import Context, Progress, Section
from ibnn.lab.theory_checks.layers import LayerState, capture
from ibnn.lab.theory_checks.solutions import claims, figures
from ibnn.lab.theory_checks.solutions.paths import follow_paths
from ibnn.lab.theory_checks.solutions.search import Solutions, find_solutions
from ibnn.lab.theory_checks.solutions.uniqueness import certify_uniqueness
from ibnn.lab.training.seeds import generator

# lam as multiples of the threshold T: rows are certified at each, searched at some
CERTIFIED = (0.5, 0.95, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0)
SEARCHED = (0.95, 1.5, 2.0, 3.0)
MOVED = 3.0  # where the input is moved from one image to another and back
MOST_ROWS = 24
MOST_UNITS = 128  # of a uniform row: above the threshold every step takes all pairs of units


def section(context: Context, progress: Progress) -> Section:
    """Thresholds, certificates for single inputs, and what happens beyond them."""
    certified = CERTIFIED[1::2] if context.quick else CERTIFIED
    searched = SEARCHED[1::2] if context.quick else SEARCHED
    total = len(certified) + len(searched) + 2
    states = capture(context.network, context.standard, context.x[:16])
    first = states[0]
    arguments, threshold = _arguments(first), first.threshold
    rows = _rows(first, context.seed)
    certificates = []
    for number, ratio in enumerate(certified):
        progress(number, total, f"certificates at {ratio:g} T")
        certificates.append(_certificates(first, rows, arguments, ratio))
    found: dict[float, Solutions] = {}
    for number, ratio in enumerate(searched):
        progress(len(certified) + number, total, f"solutions at {ratio:g} T")
        found[ratio] = find_solutions(
            rows[0], ratio * threshold, **arguments, starts=8 if context.quick else 32
        )
    progress(total - 2, total, "path dependence")
    paths = follow_paths(
        rows[0],
        rows[-1],
        threshold,
        arguments,
        highest=1.2 * max(SEARCHED),
        moved_at=MOVED,
        steps=21 if context.quick else 41,
    )
    progress(total, total, "done")
    return Section(
        name="solutions",
        title="Solutions: existence, uniqueness, path dependence",
        claims=claims.claims(states, certificates, found),
        notes=claims.notes(states, certificates, found, paths, rows[0].numel()),
        pictures=[
            Picture(
                "solutions-certificates",
                figures.draw_certificates(certificates),
                f"Layer {first.name} with its own inputs and any λ: {len(rows)} rows of "
                f"{rows[0].numel()} units. Below the threshold T every input has one solution; a "
                "certificate is about one input. Band: all rows.",
            ),
            Picture(
                "solutions-paths",
                figures.draw_paths(paths, _displacements(found, rows[0])),
                "z - y of the unit that depends most on the path. Left: one row, its solution "
                "followed as λ rises and then falls; dots are solutions that other starts lead to "
                "(hollow: unstable). Right: the input moves from one image to another and back.",
            ),
        ],
        tables=[claims.table_of_thresholds(states), claims.table_of_solutions(found)],
        rows=[*certificates, *claims.rows_of(found)],
    )


def _rows(state: LayerState, seed: int) -> Tensor:
    """Rows of y in the coupling's own shape of units, from all over the images; of long rows of
    uniform weights some units, drawn at random: a smaller layer with the same inputs."""
    operator = state.operator()
    rows = operator.flatten(state.y).double()
    # neighboring rows are channels of one image: spread over the images
    chosen = torch.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows))).round().long()
    rows = rows[chosen]
    if not isinstance(state.coupling, ibnn.Uniform):
        return rows.reshape(-1, *operator.unit_shape)
    kept = torch.randperm(operator.units, generator=generator(seed, "units"))[:MOST_UNITS]
    return rows[:, kept.sort().values]


def _arguments(state: LayerState) -> dict[str, Any]:
    """Slope, coupling and sigma for rows that stand alone (the units are the last dims)."""
    coupling = copy.copy(state.coupling)
    uniform = isinstance(coupling, ibnn.Uniform)
    coupling.dims = (-1,) if uniform else tuple(range(-len(coupling.dims), 0))
    slope = max(slope for _, slope in state.lam_and_slope)
    return {"slope": slope, "coupling": coupling, "sigma": state.sigma}


def _certificates(
    state: LayerState, rows: Tensor, arguments: dict[str, Any], ratio: float
) -> dict[str, Any]:
    lam = ratio * state.threshold
    solved = ibnn.solve(rows, lam, **arguments, on_failure="ignore")
    bounds = certify_uniqueness(rows, solved.value, lam, **arguments)
    at_solution = bounds.at_solution
    return {
        "kind": "certificate",
        "layer": state.name,
        "lam": lam,
        "lam_over_threshold": ratio,
        "smallest_lowest": float(at_solution.min()),
        "smallest_median": float(at_solution.median()),
        "smallest_highest": float(at_solution.max()),
        "everywhere_median": float(bounds.everywhere.median()),
        "stable_fraction": float(bounds.stable.double().mean()),
        "unique_fraction": float(bounds.unique.double().mean()),
        "lanczos_error": float(bounds.error.max()),
    }


def _displacements(found: dict[float, Solutions], y: Tensor) -> dict[float, tuple[Tensor, Tensor]]:
    """z - y of every solution found, and which are stable."""
    return {
        ratio: ((solutions.values - y).reshape(len(solutions), -1), solutions.stable)
        for ratio, solutions in found.items()
    }
