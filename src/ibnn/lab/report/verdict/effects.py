"""The effect behind each claim, as a paired difference computed from one CSV."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ibnn.lab.report.verdict.source import Row, Source, Sources
from ibnn.lab.stats import Paired, paired, saving
from ibnn.lab.stats.families import EQUIVALENT, judge

STANDARD, IMPLICIT = "standard", "implicit"
LEARNT, NEGATIVE = "implicit, λ learnt", "implicit, λ = -0.2"
REDUCED = "†"  # beside what was not trained in full
PIXLE = "similarity, as torchattacks writes it"


Difference = Callable[[Sequence[Row]], Paired | None]


@dataclass(frozen=True)
class Effect:
    """A claim and how it is measured: the experiment, the difference, and its unit."""

    claim: str
    experiment: str
    difference: Difference
    unit: str = "points"
    scale: float = 100.0
    digits: int = 2

    def cell(self, source: Source | None) -> str:
        """The answer with the numbers, for a table."""
        if source is None:
            return "not run"
        # equivalence is defined for accuracies alone
        margin = EQUIVALENT if self.unit == "points" else 0.0
        judged = judge({"": self.difference(source.rows)}, margin)[""]
        reduced = "" if source.is_full else f" {REDUCED}"
        return f"**{judged.answer}**: {judged.text(self.unit, self.scale, self.digits)}{reduced}"


def _by_seed(rows: Sequence[Row], neuron: str, column: str, axis: str) -> dict[int, list[float]]:
    """The values of a neuron along an axis, in its order, by seed."""
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row["neuron"] == neuron:
            found[int(row["seed"])].append((float(row[axis]), float(row[column])))
    return {seed: [value for _, value in sorted(pairs)] for seed, pairs in found.items()}


def between(column: str, axis: str, read: Callable[[list[float]], float]) -> Difference:
    """Implicit minus standard of one number read off each seed's values along an axis."""

    def difference(rows: Sequence[Row]) -> Paired | None:
        found = (_by_seed(rows, neuron, column, axis) for neuron in (IMPLICIT, STANDARD))
        return paired(*({seed: read(values) for seed, values in f.items()} for f in found))

    return difference


def saved(column: str, axis: str) -> Difference:
    """How much less of the axis an implicit network needs for the highest level both reach."""

    def difference(rows: Sequence[Row]) -> Paired | None:
        xs = sorted({float(row[axis]) for row in rows})
        found = (_by_seed(rows, neuron, column, axis) for neuron in (IMPLICIT, STANDARD))
        return saving(xs, *({s: ys for s, ys in f.items() if len(ys) == len(xs)} for f in found))

    return difference


def with_noise(values: list[float]) -> float:
    """The mean over every fraction of wrong labels above 0."""
    return fmean(values[1:])


def under_pgd(name: str, attack: str) -> Difference:
    """Of pgd: mean accuracy over every eps above 0, against the white-box standard network."""

    def robust(rows: Sequence[Row], network: str, kind: str) -> dict[int, float]:
        found: dict[int, list[float]] = defaultdict(list)
        for row in rows:
            if row["network"] == network and row["attack"] == kind and float(row["eps"]) > 0:
                found[int(row["seed"])].append(float(row["accuracy"]))
        return {seed: fmean(values) for seed, values in found.items()}

    return lambda rows: paired(robust(rows, name, attack), robust(rows, STANDARD, "white_box"))


def under_pixle(rows: Sequence[Row]) -> Paired | None:
    """Of pixle: the paper's mapping of pixels, learnt lam."""

    def robust(network: str) -> dict[int, float]:
        return {int(r["seed"]): float(r[PIXLE]) for r in rows if r["network"] == network}

    return paired(robust(LEARNT), robust(STANDARD))


def converted(lam: float, way: str, column: str) -> Difference:
    """Of transfer: a converted network minus itself at lam = 0."""

    def value(rows: Sequence[Row], at: float) -> dict[int, float]:
        return {
            int(row["seed"]): float(row[column])
            for row in rows
            if row["way"] == way and float(row["lam"]) == at
        }

    return lambda rows: paired(value(rows, lam), value(rows, 0.0))


EPOCHS = ("epochs", 1.0, 1)
DATA = ("points of the data", 100.0, 1)
OLD, REFITTED = "old head", "refitted head"

EFFECTS = (
    Effect("more accurate: best epoch", "learning-speed", between("accuracy", "epoch", max)),
    Effect(
        "... after the last epoch",
        "learning-speed",
        between("accuracy", "epoch", lambda values: values[-1]),
    ),
    Effect(
        "needs fewer epochs for the accuracy both reach",
        "learning-speed",
        saved("running_mean", "epoch"),
        *EPOCHS,
    ),
    Effect(
        "more accurate from less data, mean over fractions",
        "data-fraction",
        between("best_accuracy", "fraction", fmean),
    ),
    Effect(
        "needs less data for the accuracy both reach",
        "data-fraction",
        saved("best_accuracy", "fraction"),
        *DATA,
    ),
    Effect(
        "more accurate at equal parameters, mean over widths",
        "expressivity",
        between("best_accuracy", "channels", fmean),
    ),
    Effect(
        "more accurate with wrong labels",
        "memorization",
        between("best_accuracy", "wrong_labels", with_noise),
    ),
    Effect(
        "the gain is larger with wrong labels than without",
        "memorization",
        between("best_accuracy", "wrong_labels", lambda values: with_noise(values) - values[0]),
    ),
    Effect("more robust, the paper's PGD (transfer)", "pgd", under_pgd(LEARNT, "transfer")),
    Effect("more robust, white-box PGD", "pgd", under_pgd(LEARNT, "white_box")),
    Effect("lam = -0.2 more robust, white-box PGD", "pgd", under_pgd(NEGATIVE, "white_box")),
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
)


def claim_rows(sources: Sources, datasets: Sequence[str]) -> list[list[str]]:
    """One row per claim: its cell for every dataset."""
    return [
        [effect.claim, *(effect.cell(sources.get(effect.experiment, name)) for name in datasets)]
        for effect in EFFECTS
    ]
