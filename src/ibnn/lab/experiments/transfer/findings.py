"""What the transfer experiment's report says."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ibnn.lab.experiments.accuracy.tables import difference
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.transfer.conversions import (
    ATTACK_STEPS,
    LAMBDAS,
    OLD,
    RECALIBRATED,
    REFITTED,
    SLOPE,
    WAYS,
)
from ibnn.lab.experiments.transfer.margin import STEPS, UNITS
from ibnn.lab.experiments.transfer.readings import KEPT, Transferred, kept
from ibnn.lab.experiments.transfer.refit import PENALTIES
from ibnn.lab.results import Claim
from ibnn.lab.stats import decide

SMALL = (-0.02, 0.02)
WEAK, STRONG = -0.05, -1.0
ROUNDING = 1e-8  # of margins computed in float64, whose solves are exact to 1e-10

CONVERSIONS = (
    "A trained standard network (blue) given an implicit bias, against λ; median and 90 % band. "
    "Old head: only λ is added, as in the paper. Batch norm recalibrated: its running statistics "
    "computed anew on training images. Refitted head: the last layer fitted anew. Top: accuracy. "
    "Bottom: accuracy under the same white-box attack on each converted network itself."
)
MARGINS = (
    "The margin of a small classifier (one hidden layer, no batch norm, head of length 1) after "
    "conversion, against λ; dashed: what the paper proves to be left of it; dotted: a sharper "
    "bound, from how far all units together can move."
)


def headline(found: Transferred) -> str:
    """The finding in one sentence."""
    lam = found.strongest_kept(OLD)
    if lam is None:
        weakest = max(value for value in LAMBDAS if value < 0)
        return (
            f"With the old head already λ = {weakest:g} costs more than {100 * KEPT:g} point of "
            f"accuracy: {difference(found.difference('accuracy', OLD, weakest))}."
        )
    attacked = found.difference("attacked", OLD, lam)
    return (
        f"A trained standard network keeps its accuracy down to λ = {lam:g}; its accuracy under "
        f"attack there differs by {difference(attacked)}."
    )


def footnote(found: Transferred, runs: Sequence[Run]) -> str:
    """The instances and images used, to stand in the figure."""
    first = next(iter(found.measured.values()))
    test = max(run.result.n_test for run in runs)
    return (
        f"{len(runs)} networks, {max(r.result.epochs for r in runs)} epochs, {test:,} test images; "
        f"the first {first['attacked_images']:,} of them attacked"
    )


def margin_footnote(found: Transferred) -> str:
    """The same of the margins."""
    first = next(iter(found.margins.values()))
    return (
        f"{len(found.margins)} of {len(found.measured)} classifiers (those that separate), "
        f"{first['units']} units, classes 0 and 1, "
        f"{first['images']:,} training images"
    )


def claims(found: Transferred) -> list[Claim]:
    """The table "paper says / measured here"."""
    small = [found.difference("accuracy", OLD, lam) for lam in SMALL]
    stronger = found.between_lams("accuracy", OLD, STRONG, WEAK)
    heads = found.between_ways("accuracy", REFITTED, OLD)
    listed = "; ".join(f"λ = {lam:g}: {difference(d)}" for lam, d in zip(SMALL, small, strict=True))
    return [
        Claim(
            "An IBNN can be made by transferring the weights of a trained standard network, "
            "without training: for small |λ| the error stays small.",
            f"Old head, the smallest |λ| of the grid, accuracy minus that of the unconverted "
            f"network. {listed}. Kept means that both intervals exclude a loss of "
            f"{100 * KEPT:g} point.",
            kept(small),
        ),
        Claim(
            "The magnitude of λ has an impact on the accuracy.",
            f"Old head, λ = {STRONG:g} minus λ = {WEAK:g}: {difference(stronger)}",
            decide(stronger, "less"),
        ),
        Claim(
            "The old head is a suboptimal one: another can do better.",
            f"Accuracy with the refitted head minus the old one, mean over all λ but 0: "
            f"{difference(heads)}",
            decide(heads, "more"),
        ),
        *(_robust(found, way) for way in WAYS),
        *_bound(found),
    ]


def _robust(found: Transferred, way: str) -> Claim:
    paper = "Converting a trained network makes it more robust to input perturbations"
    lam = found.strongest_kept(way)
    at = lam if lam is not None else max(v for v in LAMBDAS if v < 0)
    gain = found.difference("attacked", way, at)
    chosen = (
        f"the strongest λ < 0 of the grid that keeps accuracy within {100 * KEPT:g} point"
        if lam is not None
        else "the weakest λ < 0 of the grid, since none keeps accuracy"
    )
    eps = next(iter(found.measured.values()))["eps"]
    return Claim(
        f"{paper} ({way}).",
        f"Accuracy under PGD (ε = {eps:g}) at λ = {at:g}, {chosen}, minus that at λ = 0: "
        f"{difference(gain)}",
        decide(gain, "more"),
    )


def _bound(found: Transferred) -> list[Claim]:
    slack = found.lowest_slack()
    if slack is None:
        return []
    middle = median(m["standard"] for m in found.margins.values())
    count = len(found.margins) * (len(LAMBDAS) - 1)
    missed = len(found.measured) - len(found.margins)
    left_out = f" {missed} more did not separate their classes and are left out." if missed else ""
    return [
        Claim(
            "With a head of length 1 at least M - 2 |λ| √D of the margin M is left.",
            f"{count} conversions (classifiers: {len(found.margins)}, {UNITS} units, median M "
            f"{middle:.2f}), old and new head: the margin closest to its bound is {slack:.2g} "
            f"above it.{left_out}",
            "yes" if slack >= -ROUNDING else "no",
        )
    ]


def notes(found: Transferred) -> list[str]:
    """Our choices, since the paper has only the proof."""
    first = next(iter(found.measured.values()))
    spread = ", ".join(f"{value:.2f}" for value in first["preactivation_std"])
    recalibrated = found.between_ways("accuracy", RECALIBRATED, OLD)
    return [
        "The paper proves the transfer for one hidden layer and tells of tests without numbers: "
        "networks, λ, attack and this figure are ours.",
        f"What λ does depends on how far the units of a channel are spread: here by {spread} "
        f"(standard deviation within an image, by layer, first seed) at p = {SLOPE:g}.",
        "Batch normalisation keeps the statistics of the unconverted network unless it is "
        "recalibrated. Recalibration alone changes accuracy, mean over all λ but 0, by "
        f"{difference(recalibrated)}.",
        f"The refitted head sees {first['refit_images']:,} training images. Its penalty, one of "
        f"{', '.join(f'{p:g}' for p in PENALTIES)}, is picked for the unconverted network on every "
        "fifth of them, and serves every λ.",
        "Refitting alone does much: at λ = 0 it changes accuracy by "
        f"{difference(found.refit_alone('accuracy'))} and accuracy under attack by "
        f"{difference(found.refit_alone('attacked'))}. What λ does with a refitted head is "
        "therefore measured from a head refitted at λ = 0.",
        f"PGD with {ATTACK_STEPS} steps (step length ε/4, one random start, the same for every "
        "network) through exact gradients: an upper bound of robust accuracy. Accuracy lost by a "
        "conversion is also lost under attack.",
        f"The margin classifier is trained for {STEPS} full batches of Adam on the training "
        "images of classes 0 and 1, one for each seed; its new head is a support vector "
        "machine's.",
        "Yes and no need at least five seeds and a 95 % interval of the paired difference that "
        "excludes zero (for kept accuracy: the loss named); intervals are not corrected for the "
        "number of comparisons.",
    ]


def settings_lines(
    experiment: ImageExperiment, settings: Settings, found: Transferred, runs: Sequence[Run]
) -> list[tuple[str, str]]:
    """How the networks were made."""
    config = runs[0].config
    first = next(iter(found.measured.values()))
    return [
        ("Network", f"UCN({config.layers},{config.channels}), standard, of learning-speed"),
        (
            "Conversion",
            f"every convolution; tanh({SLOPE:g} z), w = 1/D inside each channel, exact solve",
        ),
        ("λ", ", ".join(f"{lam:g}" for lam in LAMBDAS) + " (threshold of uniqueness 0.1)"),
        ("Attack", f"PGD, l_inf, ε = {first['eps']:g}, {ATTACK_STEPS} steps"),
        ("Training", f"{config.epochs} epochs after 2 of warm-up"),
        ("Seeds", str(experiment.instances(settings))),
    ]
