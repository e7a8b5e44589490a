"""What the measurements say about memorization: claims, notes, tables."""

from collections.abc import Sequence
from statistics import fmean

from ibnn.lab.results import Answer, Claim, Table
from ibnn.lab.stats import claim, counted, difference, paired, percent, percent_short, short
from ibnn.lab.theory_checks.memorization.assumptions import Assumption
from ibnn.lab.theory_checks.memorization.curvature import Curvatures
from ibnn.lab.theory_checks.memorization.label_noise import UNITS, WRONG, NoisyTraining
from ibnn.lab.theory_checks.memorization.scaling import SCALINGS, CurvatureRatio, paper_scaling

CLOSE = 0.05  # a formula is met if no measurement is off by more
EXAMPLE = -0.5  # the lam p that sentences quote


def claims(
    ratios: Sequence[CurvatureRatio],
    seen: Curvatures,
    lam_slope: float,
    noisy: Sequence[NoisyTraining],
) -> list[Claim]:
    """The paper's scaling of curvature, and what it is to mean for memorization."""
    return [
        _ideal_curvature([r for r in ratios if r.network == "ideal"]),
        _ideal_gradient([r for r in ratios if r.network == "ideal"]),
        _trained([r for r in ratios if r.network == "trained"]),
        _this_network(seen, round(lam_slope, 6)),  # lam may be a rounded float32
        _memorizes_less(noisy),
    ]


def _ideal_curvature(ideal: Sequence[CurvatureRatio]) -> Claim:
    one = next(r for r in ideal if r.lam_slope == EXAMPLE)
    off = {
        name: max(_relative(r.curvature, formula(r.lam_slope)) for r in ideal)
        for name, formula in SCALINGS.items()
    }
    closest = min(off, key=lambda name: off[name])
    paper = next(iter(SCALINGS))
    return Claim(
        f"Where the paper's assumptions hold, curvature is {paper} times the standard one.",
        f"On a network made for them: {one.curvature:.3f} at λp = {EXAMPLE:g}, where {paper} is "
        f"{paper_scaling(EXAMPLE):.3f}. Over all λp the closest formula is {closest}, off by at "
        f"most {percent_short(off[closest])}.",
        "yes" if off[paper] <= CLOSE else "no",
    )


def _ideal_gradient(ideal: Sequence[CurvatureRatio]) -> Claim:
    one = next(r for r in ideal if r.lam_slope == EXAMPLE)
    off = max(_relative(r.gradient, abs(1 + r.lam_slope)) for r in ideal)
    solved = max(_relative(r.gradient, 1 / (1 - r.lam_slope)) for r in ideal)
    return Claim(
        "Where they hold, the gradient of the loss is 1 + λp times the standard one.",
        f"{one.gradient:.3f} at λp = {EXAMPLE:g}, where 1 + λp is {1 + EXAMPLE:.3f}. Over all λp "
        f"it is off by up to {percent_short(off)}; 1/(1 - λp) by {percent_short(solved)}.",
        "yes" if off <= CLOSE else "no",
    )


def _trained(trained: Sequence[CurvatureRatio]) -> Claim:
    inside = [r for r in trained if abs(1 + r.lam_slope) < 1]
    listed = ", ".join(f"{short(r.curvature)} at {r.lam_slope:g}" for r in inside)
    smaller = {r.curvature < 1 for r in inside}
    agrees: Answer = "not decided" if len(smaller) != 1 else "yes" if smaller == {True} else "no"
    return Claim(
        "Less curvature for |1 + λp| < 1, on a trained network of one hidden layer.",
        f"Implicit over standard, same weights, by λp: {listed}.",
        agrees,
    )


def _this_network(seen: Curvatures, lam_slope: float) -> Claim:
    ratio = seen.ratio()
    paper = "Less curvature for |1 + λp| < 1, on this network."
    if not len(ratio):
        return Claim(
            paper, "No example has a curvature that the dtype can tell from 0.", "not decided"
        )
    smaller = float((ratio < 1).double().mean())
    measured = (
        f"λp is {lam_slope:.3g} in its first layer: {float(ratio.median()):.3g} of the curvature "
        f"without implicit bias (median over {counted(len(ratio), 'example')}), smaller for "
        f"{percent_short(smaller)} of them."
    )
    if abs(1 + lam_slope) >= 1:
        return Claim(paper, f"{measured} The paper's condition is not met.", "not decided")
    logs = dict(enumerate(ratio.log().tolist()))
    return claim(paper, measured, paired(logs, dict.fromkeys(logs, 0.0)), "less")


def _memorizes_less(noisy: Sequence[NoisyTraining]) -> Claim:
    standard, implicit = (
        {one.seed: one.memorized for one in noisy if (one.lam is None) == is_standard}
        for is_standard in (True, False)
    )
    return claim(
        "A network of implicit neurons memorizes less.",
        f"Wrong labels memorized: {percent(fmean(implicit.values()))} (implicit), "
        f"{percent(fmean(standard.values()))} (standard), means of "
        f"{counted(len(standard), 'seed')}; difference {difference(paired(implicit, standard))}.",
        paired(implicit, standard),
        "less",
    )


def notes(
    seen: Curvatures,
    held: Sequence[Assumption],
    lam_slope: float,
    noisy: Sequence[NoisyTraining],
    examples: int,
    steps: int,
) -> list[str]:
    """Which assumptions fail on this network, and what was trained on wrong labels."""
    broken = [one.name for one in held if not one.holds]
    formulas = ", ".join(f"{n} = {short(f(round(lam_slope, 6)))}" for n, f in SCALINGS.items())
    standard, implicit = (
        fmean(one.auc for one in noisy if (one.lam is None) == is_standard)
        for is_standard in (True, False)
    )
    return [
        f"{len(held) - len(broken)} of {len(held)} assumptions of the scaling hold on this network"
        + (f"; not: {'; '.join(broken)}." if broken else "."),
        f"At its λp the formulas say {formulas}. With and without implicit bias the examples are "
        f"ranked with a correlation of {seen.rank_correlation():.2f}.",
        f"Wrong labels: one hidden layer of {UNITS} units, {examples} training examples of which "
        f"{percent_short(WRONG)} carry a wrong label, {steps} steps. Curvature finds them with an "
        f"area under the ROC curve of {standard:.2f} (standard) and {implicit:.2f} (implicit).",
    ]


def _relative(measured: float, formula: float) -> float:
    return abs(measured - formula) / max(abs(measured), abs(formula), 1e-300)


def table_of_scaling(ratios: Sequence[CurvatureRatio]) -> Table:
    rows = []
    for lam_slope in dict.fromkeys(r.lam_slope for r in ratios):
        found = {r.network: f"{r.curvature:.3g}" for r in ratios if r.lam_slope == lam_slope}
        rows.append(
            {
                "λp": f"{lam_slope:g}",
                **{name: short(formula(lam_slope)) for name, formula in SCALINGS.items()},
                **{f"measured: {network}": value for network, value in found.items()},
            }
        )
    return Table.of("Curvature, implicit over standard, same weights", rows)


def table_of_assumptions(held: Sequence[Assumption]) -> Table:
    rows = [
        {
            "assumption": one.name,
            "measured on the first layer": one.measured,
            "holds": "yes" if one.holds else "no",
        }
        for one in held
    ]
    return Table.of("What the paper's scaling of curvature assumes", rows)


def table_of_noise(noisy: Sequence[NoisyTraining]) -> Table:
    rows = [
        {
            "neuron": "standard" if one.lam is None else f"λ = {one.lam:.3g}",
            "seed": str(one.seed),
            "wrong labels learned": percent(one.memorized),
            "test accuracy": percent(one.accuracy),
            "mean curvature": f"{one.curvature:.3g}",
            "area under ROC": f"{one.auc:.2f}",
        }
        for one in noisy
    ]
    return Table.of(f"Trained with {percent_short(WRONG)} wrong labels, one hidden layer", rows)
