"""The effect behind each claim, as a paired difference computed from one CSV."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ibnn.lab.experiments.controls.arms import NEGATIVE
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.robustness import networks
from ibnn.lab.experiments.robustness.pixle import PUBLISHED
from ibnn.lab.report.verdict.source import Row, Sources
from ibnn.lab.stats import Paired, paired, saving
from ibnn.lab.stats.families import EQUIVALENT, Judged, judge

STANDARD, IMPLICIT = "standard", "implicit"
REDUCED = "†"  # beside what was not trained in full
NOT_RUN = "not run"


Difference = Callable[[Sequence[Row]], Paired | None]


@dataclass(frozen=True)
class Measured:
    """The answer to a claim on one dataset, and whether it was trained in full."""

    judged: Judged
    is_full: bool


@dataclass(frozen=True)
class Effect:
    """A claim and how it is measured: the experiment, the difference, and its unit; `otherwise` is
    another experiment and difference, where the first lacks networks for it, or those in full."""

    claim: str
    experiment: str
    difference: Difference
    unit: str = "points"
    scale: float = 100.0
    digits: int = 2
    otherwise: tuple[str, Difference] | None = None

    def measured(self, sources: Sources, dataset: str) -> Measured | None:
        """By the first experiment that has the networks for it, those trained most; None where
        none has."""
        ways = [(self.experiment, self.difference), *([self.otherwise] if self.otherwise else [])]
        measured = [
            (source, found)
            for experiment, difference in ways
            for source in sources.each(experiment, dataset)
            if (found := difference(source.rows)) is not None
        ]
        if not measured:
            return None
        # the first of equals
        source, difference = max(measured, key=lambda pair: pair[0].entry.completeness)
        # equivalence is defined for accuracies alone
        margin = EQUIVALENT if self.unit == "points" else 0.0
        return Measured(judge({"": difference}, margin)[""], source.entry.is_full)

    def cell(self, sources: Sources, dataset: str) -> str:
        """The answer with its numbers, for a table."""
        found = self.measured(sources, dataset)
        if found is None:
            return NOT_RUN
        numbers = found.judged.text(self.unit, self.scale, self.digits)
        reduced = "" if found.is_full else f" {REDUCED}"
        return f"**{found.judged.answer}**: {numbers}{reduced}"


Curve = Mapping[float, float]  # a network's value at every x of an axis, in its order


def _curves(rows: Sequence[Row], column: str, axis: str, **chosen: str) -> dict[int, Curve]:
    """The chosen networks along an axis, by seed; only those that have every x."""
    xs = sorted({float(row[axis]) for row in rows})
    found: dict[int, dict[float, float]] = defaultdict(dict)
    for row in rows:
        if all(row[name] == value for name, value in chosen.items()):
            found[int(row["seed"])][float(row[axis])] = float(row[column])
    return {s: {x: curve[x] for x in xs} for s, curve in found.items() if len(curve) == len(xs)}


def between(column: str, axis: str, read: Callable[[Curve], float]) -> Difference:
    """Implicit minus standard of one number read off each seed's values along an axis."""

    def difference(rows: Sequence[Row]) -> Paired | None:
        found = (_curves(rows, column, axis, neuron=neuron) for neuron in (IMPLICIT, STANDARD))
        return paired(*({seed: read(curve) for seed, curve in f.items()} for f in found))

    return difference


def saved(column: str, axis: str) -> Difference:
    """How much less of the axis an implicit network needs for the highest level both reach."""

    def difference(rows: Sequence[Row]) -> Paired | None:
        xs = sorted({float(row[axis]) for row in rows})
        found = (_curves(rows, column, axis, neuron=neuron) for neuron in (IMPLICIT, STANDARD))
        return saving(
            xs, *({seed: list(curve.values()) for seed, curve in f.items()} for f in found)
        )

    return difference


def best(curve: Curve) -> float:
    return max(curve.values())


def last(curve: Curve) -> float:
    return curve[max(curve)]


def mean(curve: Curve) -> float:
    return fmean(curve.values())


def above_zero(curve: Curve) -> float:
    """The mean over every x above 0."""
    return fmean(value for x, value in curve.items() if x > 0)


def attacked(network: str, attack: str) -> Difference:
    """Of pgd: a network under an attack minus the standard one under its own white-box attack; mean
    accuracy over every eps above 0."""

    def difference(rows: Sequence[Row]) -> Paired | None:
        found = (
            _curves(rows, "accuracy", "eps", network=name, attack=kind)
            for name, kind in ((network, attack), (STANDARD, "white_box"))
        )
        return paired(*({seed: above_zero(curve) for seed, curve in f.items()} for f in found))

    return difference


def under_pgd(arm: str) -> Difference:
    """Of controls: an arm minus standard under the same white-box attack."""

    def difference(rows: Sequence[Row]) -> Paired | None:
        records = Records.from_rows(rows)
        return paired(records.robust(arm), records.robust(STANDARD))

    return difference


def under_pixle(rows: Sequence[Row]) -> Paired | None:
    """Of pixle: the paper's mapping of pixels, learnt lam."""

    def robust(network: str) -> dict[int, float]:
        return {int(r["seed"]): float(r[PUBLISHED]) for r in rows if r["network"] == network}

    return paired(robust(networks.LEARNT), robust(STANDARD))


def converted(lam: float, way: str, column: str) -> Difference:
    """Of transfer: a converted network minus itself at lam = 0."""

    def value(rows: Sequence[Row], at: float) -> dict[int, float]:
        return {
            int(row["seed"]): float(row[column])
            for row in rows
            if row["way"] == way and float(row["lam"]) == at
        }

    return lambda rows: paired(value(rows, lam), value(rows, 0.0))


def _accuracy(
    best_epoch: str, last_epoch: str, experiment: str, *, axis: str, read: Callable[[Curve], float]
) -> tuple[Effect, Effect]:
    """Two claims about one reading of accuracy: of the best epoch, and after the last one."""
    return (
        Effect(best_epoch, experiment, between("best_accuracy", axis, read)),
        Effect(last_epoch, experiment, between("accuracy", axis, read)),
    )


EPOCHS = ("epochs", 1.0, 1)
DATA = ("points of the data", 100.0, 1)
OLD, REFITTED = "old head", "refitted head"

EFFECTS = (
    Effect("more accurate: best epoch", "learning-speed", between("accuracy", "epoch", best)),
    Effect(
        "... after the last epoch",
        "learning-speed",
        between("accuracy", "epoch", last),
    ),
    Effect(
        "needs fewer epochs for the accuracy both reach",
        "learning-speed",
        saved("running_mean", "epoch"),
        *EPOCHS,
    ),
    *_accuracy(
        "more accurate from less data, mean over fractions",
        "... from less data, after the last epoch",
        "data-fraction",
        axis="fraction",
        read=mean,
    ),
    Effect(
        "needs less data for the accuracy both reach",
        "data-fraction",
        saved("best_accuracy", "fraction"),
        *DATA,
    ),
    *_accuracy(
        "more accurate at equal parameters, mean over widths",
        "... at equal parameters, after the last epoch",
        "expressivity",
        axis="channels",
        read=mean,
    ),
    *_accuracy(
        "more accurate with wrong labels",
        "... with wrong labels, after the last epoch",
        "memorization",
        axis="wrong_labels",
        read=above_zero,
    ),
    Effect(
        "fits less of training labels that are partly wrong",
        "memorization",
        between("train_accuracy", "wrong_labels", lambda curve: -above_zero(curve)),
    ),
    Effect(
        "the gain is larger with wrong labels than without",
        "memorization",
        between("best_accuracy", "wrong_labels", lambda curve: above_zero(curve) - curve[0]),
    ),
    Effect("more robust, the paper's PGD (transfer)", "pgd", attacked(networks.LEARNT, "transfer")),
    Effect(
        "more robust, white-box PGD",
        "controls",
        under_pgd(IMPLICIT),
        otherwise=("pgd", attacked(networks.LEARNT, "white_box")),
    ),
    Effect(
        "lam = -0.2 more robust, white-box PGD",
        "controls",
        under_pgd(NEGATIVE),
        otherwise=("pgd", attacked(networks.NEGATIVE, "white_box")),
    ),
    Effect("more robust under Pixle", "pixle", under_pixle),
    Effect(
        "conversion to lam = -0.02 gains accuracy", "transfer", converted(-0.02, OLD, "accuracy")
    ),
    Effect("... gains robust accuracy", "transfer", converted(-0.02, OLD, "robust_accuracy")),
    Effect(
        "conversion to lam = -0.1 with a refitted head gains robust accuracy",
        "transfer",
        converted(-0.1, REFITTED, "robust_accuracy"),
    ),
    Effect("... gains accuracy", "transfer", converted(-0.1, REFITTED, "accuracy")),
)


def claim_rows(sources: Sources, datasets: Sequence[str]) -> list[list[str]]:
    """One row per claim: its cell for every dataset."""
    return [
        [effect.claim, *(effect.cell(sources, name) for name in datasets)] for effect in EFFECTS
    ]
