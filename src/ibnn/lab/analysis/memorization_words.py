"""The sentences and tables of the analysis of memorization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ibnn.lab.analysis.assumptions import Assumption
from ibnn.lab.analysis.curvature import linear_law, paper_law, resolvent_law
from ibnn.lab.analysis.law import STRENGTHS, Ratio
from ibnn.lab.analysis.noise import SHARE, UNITS, Memory
from ibnn.lab.results import Table
from ibnn.lab.stats import counted, percent, percent_short, short

if TYPE_CHECKING:
    from ibnn.lab.analysis.memorization import Curvatures


def about_law(law: Sequence[Ratio]) -> list[str]:
    """The law where every assumption holds."""
    one = next(r for r in law if r.network == "made to fit" and r.lam_slope == -0.5)
    return [
        f"Where every assumption of the paper holds, at lam p = -0.5, the curvature falls to "
        f"{one.curvature:.3f} of the standard one: 1/(1 - lam p)^4 = {linear_law(-0.5):.3f}, not "
        f"(1 + lam p)^2 = {paper_law(-0.5):.3f} (the gradient does follow 1/(1 - lam p) = "
        f"{1 / 1.5:.3f}: {one.gradient:.3f}). The paper's step from gradient to curvature loses "
        "one factor."
    ]


def about_network(seen: Curvatures, held: Sequence[Assumption], strength: float) -> list[str]:
    """This network against its twin, and the assumptions it breaks."""
    ratio = seen.ratio()
    broken = [a.name for a in held if not a.holds]
    less = float((ratio < 1).double().mean()) if len(ratio) else float("nan")
    middle = float(ratio.median()) if len(ratio) else float("nan")
    strength = round(strength, 6)  # lam may be a rounded float32
    return [
        f"On this network (lam p = {strength:.3g} in its first layer) the curvature is "
        f"{middle:.3g} times its twin's (median over {counted(len(ratio), 'example')}; the laws "
        f"say {short(paper_law(strength))}, {short(resolvent_law(strength))} and "
        f"{short(linear_law(strength))}) and smaller for {percent_short(less)} of them; both "
        f"rank examples with a correlation of {seen.rank_correlation():.2f}. The twin has the "
        "same weights and was not trained anew: where it errs, its loss is steep for that "
        "reason alone.",
        "Assumptions that do not hold here: " + ("; ".join(broken) if broken else "none") + ".",
    ]


def about_memories(learnt: Sequence[Memory], examples: int, steps: int) -> list[str]:
    """Wrong labels learnt by heart."""
    standard = [m for m in learnt if m.lam is None]
    implicit = [m for m in learnt if m.lam is not None]

    def mean(group: Sequence[Memory], what: str) -> float:
        return sum(getattr(m, what) for m in group) / len(group)

    return [
        f"One hidden layer of {UNITS} units, trained on {examples} examples of which "
        f"{percent_short(SHARE)} carry a wrong label ({steps} steps), gives back "
        f"{percent(mean(standard, 'memorised'))} of the wrong labels (standard) and "
        f"{percent(mean(implicit, 'memorised'))} (implicit); curvature finds them with an area "
        f"under the ROC curve of {mean(standard, 'area'):.2f} and {mean(implicit, 'area'):.2f} "
        f"(means of {counted(len(standard), 'seed')} each)."
    ]


def table_of_laws(law: Sequence[Ratio]) -> Table:
    """One line per lam p."""
    rows = []
    for strength in STRENGTHS:
        found = {r.network: r for r in law if r.lam_slope == strength}
        cells = [f"{found[n].curvature:.3g}" for n in ("made to fit", "trained")]
        laws = (paper_law, resolvent_law, linear_law)
        rows.append([f"{strength:g}", *(short(f(strength)) for f in laws), *cells])
    columns = (
        "λ p",
        "(1 + λp)²",
        "1/(1 - λp)²",
        "1/(1 - λp)⁴",
        "measured: made to fit",
        "measured: trained",
    )
    return Table("Curvature, implicit over standard, same weights", columns, rows)


def table_of_assumptions(held: Sequence[Assumption]) -> Table:
    """One line per assumption."""
    rows = [[a.name, a.measured, "yes" if a.holds else "no"] for a in held]
    columns = ("assumption", "measured on the first layer", "holds")
    return Table("What the paper's law of curvature assumes", columns, rows)


def table_of_memories(learnt: Sequence[Memory]) -> Table:
    """One line per trained network."""
    rows: list[list[Any]] = [
        [
            "standard" if m.lam is None else f"λ = {m.lam:.3g}",
            str(m.seed),
            percent(m.memorised),
            percent(m.accuracy),
            f"{m.curvature:.3g}",
            f"{m.area:.2f}",
        ]
        for m in learnt
    ]
    columns = (
        "neuron",
        "seed",
        "wrong labels learnt",
        "test accuracy",
        "mean curvature",
        "area under ROC",
    )
    return Table(
        f"Trained with {percent_short(SHARE)} wrong labels, one hidden layer", columns, rows
    )
