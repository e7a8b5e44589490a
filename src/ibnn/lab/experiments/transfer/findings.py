"""What the transfer experiment makes of its measurements: claims and notes."""

from collections.abc import Sequence
from statistics import median

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.protocol import attack_line, protocol
from ibnn.lab.experiments.readings import amounts
from ibnn.lab.experiments.transfer import conversions
from ibnn.lab.experiments.transfer.conversions import LAMBDAS, MARGIN_STEPS, OLD
from ibnn.lab.experiments.transfer.readings import KEPT, Conversions, kept
from ibnn.lab.results import Claim
from ibnn.lab.stats import claim, difference, sentence
from ibnn.lab.training.conversion import PENALTIES

SMALL = (-0.02, 0.02)
WEAK, STRONG = -0.05, -1.0
ROUNDING = 1e-8  # of margins computed in float64, whose solves are exact to 1e-10


def headline(found: Conversions) -> str:
    lam = found.strongest_kept(OLD)
    if lam is None:
        weakest = max(value for value in LAMBDAS if value < 0)
        return (
            f"With the old head already λ = {weakest:g} costs more than {100 * KEPT:g} point of "
            f"median accuracy; the mean changes by "
            f"{difference(found.difference('accuracy', OLD, weakest))}."
        )
    attacked = found.difference("attacked", OLD, lam)
    robust = sentence(attacked, "it is {} robust there", "more", "less")
    return (
        f"A trained standard network keeps its median accuracy within {100 * KEPT:g} point down "
        f"to λ = {lam:g}; {robust}: robust accuracy changes by {difference(attacked)}."
    )


def footnote(found: Conversions, runs: Sequence[Run]) -> str:
    """The instances and images used, to stand in the figure."""
    return (
        f"{len(runs)} networks, {amounts(runs)}; the first "
        f"{found.first['attacked_images']:,} of them attacked"
    )


def margin_footnote(found: Conversions) -> str:
    """The same of the margins."""
    first = next(iter(found.margins.values()))
    return (
        f"{len(found.margins)} of {len(found.measured)} classifiers (those that separate), "
        f"{first['units']} units, classes 0 and 1, "
        f"{first['images']:,} training images"
    )


def claims(found: Conversions) -> list[Claim]:
    small = {lam: found.difference("accuracy", OLD, lam) for lam in SMALL}
    stronger = found.between_lams("accuracy", OLD, STRONG, WEAK)
    heads = found.between_ways("accuracy", conversions.REFITTED, OLD)
    listed = "; ".join(f"λ = {lam:g}: {difference(d)}" for lam, d in small.items())
    return [
        Claim(
            "An IBNN can be made by transferring the weights of a trained standard network, "
            "without training: for small |λ| the error stays small.",
            f"Old head, the smallest |λ| of the grid, accuracy minus that of the unconverted "
            f"network. {listed}. Kept means that both intervals exclude a loss of "
            f"{100 * KEPT:g} point.",
            kept(list(small.values())),
        ),
        claim(
            "The magnitude of λ has an impact on the accuracy.",
            f"Old head, λ = {STRONG:g} minus λ = {WEAK:g}: {difference(stronger)}",
            stronger,
            "less",
        ),
        claim(
            "The old head is a suboptimal one: another can do better.",
            f"Accuracy with the refitted head minus the old one, mean over all λ but 0: "
            f"{difference(heads)}",
            heads,
        ),
        *(_robust(found, way) for way in conversions.WAYS),
        *_bound(found),
    ]


def _robust(found: Conversions, way: str) -> Claim:
    lam = found.strongest_kept(way)
    at = lam if lam is not None else max(v for v in LAMBDAS if v < 0)
    gain = found.difference("attacked", way, at)
    chosen = (
        f"the strongest λ < 0 of the grid that keeps accuracy within {100 * KEPT:g} point"
        if lam is not None
        else "the weakest λ < 0 of the grid, since none keeps accuracy"
    )
    return claim(
        f"Converting a trained network makes it more robust to input perturbations ({way}).",
        f"Robust accuracy (PGD, ε = {found.first['eps']:g}) at λ = {at:g}, {chosen}, minus that "
        f"at λ = 0: {difference(gain)}",
        gain,
    )


def _bound(found: Conversions) -> list[Claim]:
    slack = found.lowest_slack()
    if slack is None:
        return []
    every = list(found.margins.values())
    middle = median(m["standard"] for m in every)
    missed = len(found.measured) - len(every)
    left_out = f" {missed} more did not separate their classes and are left out." if missed else ""
    where = "above" if slack >= 0 else "below"
    return [
        Claim(
            "With a head of length 1 at least M - 2 |λ| √D of the margin M is left.",
            f"{len(every) * (len(LAMBDAS) - 1)} conversions (classifiers: {len(every)}, "
            f"{every[0]['units']} units, median M {middle:.2f}), old and new head: the margin "
            f"closest to its bound is {abs(slack):.2g} {where} it.{left_out}",
            "yes" if slack >= -ROUNDING else "no",
            {"slack": slack},
        )
    ]


def notes(found: Conversions) -> list[str]:
    """What was measured besides."""
    spread = ", ".join(f"{value:.2f}" for value in found.first["preactivation_std"])
    recalibrated = found.between_ways("accuracy", conversions.RECALIBRATED, OLD)
    return [
        f"Units of a channel are spread by {spread} (standard deviation within an image, by "
        f"layer, first seed), at p = {conversions.SLOPE:g}: what λ does depends on it.",
        f"Batch norm recalibrated in place of kept, accuracy, mean over all λ but 0: "
        f"{difference(recalibrated)}.",
        "Head refitted at λ = 0, without any implicit bias: accuracy "
        f"{difference(found.refit_alone('accuracy'))}, robust accuracy "
        f"{difference(found.refit_alone('attacked'))}. What λ does with a refitted head is "
        "measured from there.",
    ]


def settings_lines(found: Conversions, runs: Sequence[Run]) -> list[tuple[str, str]]:
    """How the networks were made and converted."""
    lambdas = ", ".join(f"{lam:g}" for lam in LAMBDAS)
    penalties = ", ".join(f"{penalty:g}" for penalty in PENALTIES)
    return [
        (
            "Conversion",
            f"ibnn.convert of every convolution, p = {conversions.SLOPE:g}, λ = {lambdas}",
        ),
        (
            "Refitted head",
            f"logistic regression on {found.first['refit_images']:,} training images; penalty, "
            f"one of {penalties}, picked for the unconverted network on some of them",
        ),
        ("Attack", attack_line(conversions.attack_of(found.first["eps"]))),
        (
            "Margin",
            f"trained for {MARGIN_STEPS} full batches of Adam; new head: a support vector machine",
        ),
        *protocol(runs),
    ]
