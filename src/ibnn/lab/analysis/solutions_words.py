"""The sentences and tables about solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ibnn import theory
from ibnn.lab.results import Table
from ibnn.lab.stats import percent

if TYPE_CHECKING:
    from ibnn.lab.analysis.layers import LayerState
    from ibnn.lab.analysis.solutions_find import Solutions
    from ibnn.lab.analysis.solutions_paths import Path, Paths


def table_of_thresholds(states: Sequence[LayerState]) -> Table:
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


def table_of_solutions(found: Mapping[float, Solutions]) -> Table:
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


def rows_of(found: Mapping[float, Solutions]) -> list[dict[str, Any]]:
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


def about(
    states: Sequence[LayerState],
    certificates: Sequence[Mapping[str, Any]],
    found: Mapping[float, Solutions],
    paths: Paths,
    kept: int,
) -> list[str]:
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
    way = (
        f"Followed up and down in lam, a unit ends {_apart(paths.over_lam)}; from one image to "
        f"another and back at {paths.share:g} T, {_apart(paths.over_input)}."
    )
    if paths.unsolved:
        way += (
            f" At {paths.unsolved} of the {paths.points} points of these ways the solver's steps "
            "ran out first."
        )
    units = states[0].operator().units
    cut = (
        f"The first layer's rows are long: beyond the threshold they were looked at with {kept} of "
        f"their {units:,} units, drawn at random, as a layer of their own, because every step "
        "takes all pairs of units there."
    )
    return [first, reach, search, way, *([cut] if kept < units else [])]


def _apart(path: Path) -> str:
    if path.gap < 1e-6:
        return "in the same place both ways"
    return f"up to {path.gap:.3g} apart"
