"""Section: how many solutions an input has, below and above the threshold of uniqueness."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import ibnn
from ibnn import theory
from ibnn.lab.analysis.layers import LayerState, capture
from ibnn.lab.analysis.section import Progress, Section, Subject
from ibnn.lab.analysis.solutions_certificate import certify
from ibnn.lab.analysis.solutions_figures import draw_certificates, draw_paths
from ibnn.lab.analysis.solutions_find import Solutions, find_solutions, follow
from ibnn.lab.experiments.experiment import Picture, Table
from ibnn.lab.report.statistics import percent

SHARES = (0.5, 0.95, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0)
SEARCHED = (0.95, 1.5, 2.0, 3.0)
LOOP_SHARE = 3.0
NOISE = 1e-6  # keeps a followed solution from resting on a saddle
MOST_ROWS = 24

Path = tuple[
    Tensor, Tensor, Tensor
]  # where along it, z - y on the way there, z - y on the way back


def section(subject: Subject, progress: Progress) -> Section | None:
    """Thresholds, certificates for single inputs, and what happens beyond them."""
    shares = SHARES[1::2] if subject.quick else SHARES
    searched = SEARCHED[1::2] if subject.quick else SEARCHED
    total = len(shares) + len(searched) + 2
    states = capture(subject.network, subject.twin, subject.x[:16])
    first = states[0]
    rows = _rows(first)
    certificates = []
    for number, share in enumerate(shares):
        progress(number, total, f"certificates at {share:g} T")
        certificates.append(_certificates(first, rows, share))
    found: dict[float, Solutions] = {}
    threshold = first.threshold()
    settings = _settings(first)
    for number, share in enumerate(searched):
        progress(len(shares) + number, total, f"solutions at {share:g} T")
        found[share] = find_solutions(
            rows[0], share * threshold, **settings, starts=8 if subject.quick else 32
        )
    progress(total - 2, total, "path dependence")
    steps = 21 if subject.quick else 41
    lam_path, input_path = _paths(rows, threshold, settings, steps)
    units = (_liveliest(lam_path), _liveliest(input_path))
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
            draw_paths(lam_path, _pushed(found, rows[0]), input_path, units, LOOP_SHARE),
            "How far a unit is pushed. Left: one row, its solution followed as lam rises and then "
            "falls; dots are solutions that other starts lead to (hollow: unstable). Right: "
            "the input moves from one image to another and back at a lam above the threshold; "
            "where the two curves differ, the neuron remembers where it came from.",
        ),
    ]
    return Section(
        "solutions",
        "Solutions: existence, uniqueness, path dependence",
        _words(states, certificates, found, lam_path, input_path),
        pictures,
        [_thresholds(states), _found_table(found)],
        [*certificates, *_found_rows(found)],
    )


def _rows(state: LayerState) -> Tensor:
    """Rows of y in the coupling's own shape of units, one image after the other."""
    operator = state.operator()
    rows = operator.flatten(state.y).double().reshape(-1, *operator.unit_shape)
    # neighbouring rows are channels of one image: spread over the images
    chosen = torch.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows))).round().long()
    return rows[chosen]


def _settings(state: LayerState) -> dict[str, Any]:
    """Slope, coupling and sigma for rows that stand alone (the units are the last dims)."""
    coupling = state.layer.coupling
    if coupling.kernel == "uniform":
        coupling = ibnn.Uniform(tuple(range(-len(coupling.dims), 0)))
    slope = max(slope for _, slope in state.flat_settings())
    return {"slope": slope, "coupling": coupling, "sigma": state.layer.sigma}


def _certificates(state: LayerState, rows: Tensor, share: float) -> dict[str, Any]:
    lam, settings = share * state.threshold(), _settings(state)
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


def _paths(
    rows: Tensor, threshold: float, settings: dict[str, Any], steps: int
) -> tuple[Path, Path]:
    """One row while lam rises and falls, and a lam above the threshold while the input goes from
    one row to another and back."""
    shares = torch.linspace(0, 1.2 * max(SEARCHED), steps, dtype=torch.float64)
    at = torch.linspace(0, 1, steps, dtype=torch.float64)
    mixed = at.reshape(-1, *[1] * (rows.ndim - 1))
    between = (1 - mixed) * rows[0] + mixed * rows[-1]
    still = rows[0].expand(between.shape)
    high = torch.full_like(shares, LOOP_SHARE)
    # falling, lam begins with the row in another order than its own
    start = torch.stack([rows[0], 2 * rows[0].mean() - rows[0], rows[0]])
    lams = threshold * torch.stack([shares, shares.flip(0), high], 1)
    inputs = torch.stack([still, still, between], 1)
    tracks = follow(inputs, lams, start, NOISE, **settings)
    back = follow(inputs[:, 2:].flip(0), lams[:, 2:], tracks[-1, 2:], NOISE, **settings)
    # how far units are pushed shows what their own values, which move with the input, would hide
    up, down, there = (tracks - inputs).reshape(steps, 3, -1).unbind(1)
    back = (back - inputs[:, 2:].flip(0)).reshape(steps, -1)
    return (shares, up, down), (at, there, back)


def _pushed(found: dict[float, Solutions], y: Tensor) -> dict[float, tuple[Tensor, Tensor]]:
    """z - y of every solution found, and which are stable."""
    return {
        share: ((solutions.values - y).reshape(len(solutions), -1), solutions.stable)
        for share, solutions in found.items()
    }


def _liveliest(path: Path) -> int:
    """The unit for which the way matters most."""
    _, there, back = path
    return int((there - back.flip(0)).abs().amax(0).argmax())


def _gap(path: Path) -> float:
    _, there, back = path
    return float((there - back.flip(0)).abs().max())


def _thresholds(states: list[LayerState]) -> Table:
    cells = []
    for state in states:
        coupling, sigma = state.layer.coupling, state.layer.sigma
        lam, slope = max(state.flat_settings(), key=lambda pair: pair[0] * pair[1])
        sharp = state.threshold()
        proven = "yes" if lam < sharp else "no"
        paper = theory.paper_threshold(slope, coupling, sigma)
        name = f"{type(coupling).__name__.lower()}, {sigma.name}"
        cells.append(
            (
                state.name,
                f"{state.operator().units:,}",
                name,
                f"{slope:g}",
                f"{lam:.4g}",
                f"{paper:.4g}",
                f"{sharp:.4g}",
                f"{lam / sharp:+.2f}",
                proven,
            )
        )
    columns = ("layer", "units", "coupling, sigma", "slope", "lam", "paper's T", "sharper T")
    return Table("Thresholds of uniqueness", (*columns, "lam / T", "unique"), cells)


def _found_table(found: dict[float, Solutions]) -> Table:
    cells = [
        (
            f"{share:g}",
            str(len(solutions)),
            str(int(solutions.stable.sum())),
            f"{solutions.converged} of {solutions.starts}",
            f"{float(solutions.energies[0]):.4g} to {float(solutions.energies[-1]):.4g}",
        )
        for share, solutions in found.items()
    ]
    columns = ("lam / T", "distinct solutions", "of them stable", "starts that converged", "energy")
    return Table("Solutions found for one row", columns, cells)


def _found_rows(found: dict[float, Solutions]) -> list[dict[str, Any]]:
    return [
        {
            "kind": "solution",
            "lam_over_threshold": share,
            "number": number,
            "energy": float(solutions.energies[number]),
            "smallest": float(solutions.smallest[number]),
            "found_by": solutions.found_by[number],
        }
        for share, solutions in found.items()
        for number in range(len(solutions))
    ]


def _words(states, certificates, found, lam_path, input_path) -> list[str]:
    lams = [lam for state in states for lam, _ in state.flat_settings()]
    below = all(lam < state.threshold() for state in states for lam, _ in state.flat_settings())
    first = (
        f"lam is {min(lams):.4g}"
        + (f" to {max(lams):.4g}" if min(lams) < max(lams) else "")
        + (
            ": below the threshold of every layer, so each input has exactly one solution."
            if below
            else ": above the threshold of some layer, where several solutions can exist."
        )
    )
    above = next(row for row in certificates if row["lam_over_threshold"] > 1)
    stable = [row["lam_over_threshold"] for row in certificates if row["stable_share"] == 1]
    reach = (
        f"Just above the threshold, at {above['lam_over_threshold']:g} T, where no statement about "
        f"every input is true any more, {percent(above['unique_share'])} of the first layer's own "
        "rows are still certified to have one solution; "
        + (
            f"all are strict minima of the energy up to {max(stable):g} T."
            if stable
            else "some solutions are not strict minima of the energy."
        )
    )
    several = [f"{len(s)} at {share:g} T" for share, s in found.items()]
    search = f"Distinct solutions found for one row, from many starts: {', '.join(several)}."
    paths = (
        f"Followed up and down in lam, the two ways differ by up to {_gap(lam_path):.3g} in a "
        f"unit; from one image to another and back at {LOOP_SHARE:g} T by up to "
        f"{_gap(input_path):.3g}."
    )
    return [first, reach, search, paths]
