"""What the measurements say about solutions: claims, notes, tables, rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from ibnn import theory
from ibnn.lab.results import Answer, Claim, Table
from ibnn.lab.stats import counted, percent
from ibnn.lab.theory_checks.layers import LayerState
from ibnn.lab.theory_checks.solutions.paths import Path, Paths
from ibnn.lab.theory_checks.solutions.search import Solutions

Certificates = Sequence[Mapping[str, Any]]  # one row of the CSV per lam / T
Found = Mapping[float, Solutions]  # by lam / T


def claims(states: Sequence[LayerState], certificates: Certificates, found: Found) -> list[Claim]:
    """The paper's two statements about uniqueness."""
    return [_below(certificates, found), _this_network(states)]


def _below(certificates: Certificates, found: Found) -> Claim:
    """Below the threshold: certificates of all rows, and a search that finds nothing else."""
    proven = [row for row in certificates if row["lam_over_threshold"] < 1]
    searched = {ratio: s for ratio, s in found.items() if ratio < 1}
    most = max((len(s) for s in searched.values()), default=0)
    lowest = min((row["unique_fraction"] for row in proven), default=0.0)
    parts = [
        f"at {row['lam_over_threshold']:g} T {percent(row['unique_fraction'])} of the rows are "
        "certified to have one solution"
        for row in proven
    ]
    parts += [
        f"at {ratio:g} T {counted(s.starts, 'start')} led to {counted(len(s), 'solution')}"
        for ratio, s in searched.items()
    ]
    agrees: Answer = "not decided"
    if most > 1:
        agrees = "no"
    elif proven and lowest == 1:
        agrees = "yes"
    measured = "; ".join(parts) or "nothing was measured below the threshold"
    return Claim(
        "Below a threshold of λ every input has exactly one solution.",
        f"First layer: {measured}.",
        agrees,
    )


def _this_network(states: Sequence[LayerState]) -> Claim:
    """Whether the theory of unique solutions covers this network."""
    lams = [lam for state in states for lam, _ in state.lam_and_slope]
    own = f"λ is {min(lams):.4g}" + (f" to {max(lams):.4g}" if min(lams) < max(lams) else "")
    paper, sharp = (min(_thresholds(state)[kind] for state in states) for kind in (0, 1))
    below = [
        all(lam < _thresholds(s)[kind] for s in states for lam, _ in s.lam_and_slope)
        for kind in (0, 1)
    ]
    unique = "every input has one solution" if below[1] else "some input may have several solutions"
    return Claim(
        "The proof of uniqueness asks for λ < 1/(2p).",
        f"{own} here, 1/(2p) is {paper:.4g} in the strictest layer. The sharper threshold of these "
        f"weights is {sharp:.4g}: {unique}.",
        "yes" if below[0] else "no",
    )


def _thresholds(state: LayerState) -> tuple[float, float]:
    """The paper's and the sharper one."""
    slope = max(slope for _, slope in state.lam_and_slope)
    units = state.operator().unit_shape
    return theory.paper_threshold(slope, state.coupling, state.sigma, units), state.threshold


def notes(
    states: Sequence[LayerState],
    certificates: Certificates,
    found: Found,
    paths: Paths,
    kept: int,
) -> list[str]:
    """What was found above the threshold, and how it was looked for."""
    text = [_certified(certificates)]
    several = [f"{len(s)} at {ratio:g} T" for ratio, s in found.items()]
    text.append(f"Distinct solutions found for one row, from many starts: {', '.join(several)}.")
    text.append(
        f"Followed up and down in λ, a unit ends {_apart(paths.over_lam)}; from one image to "
        f"another and back at {paths.moved_at:g} T, {_apart(paths.over_input)}."
    )
    if paths.unsolved:
        text[-1] += (
            f" At {paths.unsolved} of the {paths.points} points of these paths the solver's steps "
            "ran out first."
        )
    units = states[0].units
    if kept < units:
        text.append(
            f"The first layer's rows are long: they were looked at with {kept} of their "
            f"{units:,} units, drawn at random, as a layer of their own."
        )
    return text


def _certified(certificates: Certificates) -> str:
    above = next(row for row in certificates if row["lam_over_threshold"] > 1)
    stable = [row["lam_over_threshold"] for row in certificates if row["stable_fraction"] == 1]
    return (
        f"At {above['lam_over_threshold']:g} T, {percent(above['unique_fraction'])} of the first "
        "layer's own rows are certified to have one solution. "
        + (
            f"All rows are at strict minima of the energy up to {max(stable):g} T."
            if stable
            else "Some rows are not at strict minima of the energy."
        )
    )


def _apart(path: Path) -> str:
    if not bool(path.apart.any()):
        return "in the same place both ways"
    return f"up to {path.gap:.3g} apart"


def table_of_thresholds(states: Sequence[LayerState]) -> Table:
    rows = []
    for state in states:
        lam, slope = max(state.lam_and_slope, key=lambda pair: pair[0] * pair[1])
        paper, sharp = _thresholds(state)
        rows.append(
            {
                "layer": state.name,
                "units": f"{state.units:,}",
                "coupling, sigma": f"{type(state.coupling).__name__.lower()}, {state.sigma.name}",
                "slope": f"{slope:g}",
                "λ": f"{lam:.4g}",
                "paper's T": f"{paper:.4g}",
                "sharper T": f"{sharp:.4g}",
                "λ / T": f"{lam / sharp:+.2f}",
                "unique": "yes" if lam < sharp else "no",
            }
        )
    return Table.of("Thresholds of uniqueness", rows)


def table_of_solutions(found: Found) -> Table:
    rows = [
        {
            "λ / T": f"{ratio:g}",
            "distinct solutions": str(len(solutions)),
            "of them stable": str(int(solutions.stable.sum())),
            "starts that converged": f"{solutions.converged} of {solutions.starts}",
            "energy": " to ".join(f"{float(e):.4g}" for e in solutions.energies[[0, -1]])
            if len(solutions)
            else "-",
        }
        for ratio, solutions in found.items()
    ]
    return Table.of("Solutions found for one row", rows)


def rows_of(found: Found) -> list[dict[str, Any]]:
    """One line of the CSV per solution."""
    return [
        {
            "kind": "solution",
            "lam_over_threshold": ratio,
            "number": number,
            "energy": float(solutions.energies[number]),
            "smallest": float(solutions.smallest[number]),
            "found_by": solutions.found_by[number],
        }
        for ratio, solutions in found.items()
        for number in range(len(solutions))
    ]
