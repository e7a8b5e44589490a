"""The effect behind each claim, as a paired difference computed from one CSV."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ibnn.lab.report.verdict.source import Row, Source, Sources
from ibnn.lab.stats import Paired, needed_for_common_best, paired
from ibnn.lab.stats.families import EQUIVALENT, judge

STANDARD, IMPLICIT = "standard", "implicit"
LEARNT, NEGATIVE = "implicit, λ learnt", "implicit, λ = -0.2"
PIXLE = "similarity, as torchattacks writes it"


@dataclass(frozen=True)
class Effect:
    """A claim and how it is measured: the experiment, the difference, and its unit."""

    claim: str
    experiment: str
    difference: Callable[[Sequence[Row]], Paired | None]
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
        return f"**{judged.answer}**: {judged.text(self.unit, self.scale, self.digits)}"


def _by_seed(rows: Sequence[Row], neuron: str, column: str, axis: str) -> dict[int, list[float]]:
    """The values of a neuron along an axis, in its order, by seed."""
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row["neuron"] == neuron:
            found[int(row["seed"])].append((float(row[axis]), float(row[column])))
    return {seed: [value for _, value in sorted(pairs)] for seed, pairs in found.items()}


def _axis(rows: Sequence[Row], *names: str) -> str:
    return next(name for name in names if name in rows[0])


def _between(
    rows: Sequence[Row], column: str, axis: str, read: Callable[[list[float]], float]
) -> Paired | None:
    """Implicit minus standard of one number read off each seed's values."""
    ours, theirs = (_by_seed(rows, neuron, column, axis) for neuron in (IMPLICIT, STANDARD))
    return paired(
        {seed: read(values) for seed, values in ours.items()},
        {seed: read(values) for seed, values in theirs.items()},
    )


def best_accuracy(rows: Sequence[Row]) -> Paired | None:
    """Of learning-speed: the best epoch."""
    return _between(rows, "accuracy", "epoch", max)


def last_accuracy(rows: Sequence[Row]) -> Paired | None:
    """Of learning-speed: the last epoch."""
    return _between(rows, "accuracy", "epoch", lambda values: values[-1])


def _saved(rows: Sequence[Row], column: str, axis: str) -> Paired | None:
    """How much less of the axis an implicit network needs for the highest level both reach."""
    xs = sorted({float(row[axis]) for row in rows})
    ours, theirs = (_by_seed(rows, neuron, column, axis) for neuron in (IMPLICIT, STANDARD))
    needed = {
        seed: needed_for_common_best(xs, theirs[seed], ours[seed])
        for seed in ours.keys() & theirs.keys()
        if len(ours[seed]) == len(theirs[seed]) == len(xs)
    }
    first = {seed: pair[0] for seed, pair in needed.items()}
    return paired(first, {seed: pair[1] for seed, pair in needed.items()})


def epochs_saved(rows: Sequence[Row]) -> Paired | None:
    """Of learning-speed: running mean of three epochs."""
    return _saved(rows, "running_mean", "epoch")


def data_saved(rows: Sequence[Row]) -> Paired | None:
    """Of data-fraction: the fraction of the data saved at equal accuracy."""
    return _saved(rows, "best_accuracy", _axis(rows, "fraction", "share"))


def mean_over_data(rows: Sequence[Row]) -> Paired | None:
    """Of data-fraction: the mean over all fractions."""
    return _between(rows, "best_accuracy", _axis(rows, "fraction", "share"), fmean)


def mean_over_channels(rows: Sequence[Row]) -> Paired | None:
    """Of expressivity: the mean over all widths."""
    return _between(rows, "best_accuracy", "channels", fmean)


def mean_over_labels(rows: Sequence[Row]) -> Paired | None:
    """Of memorization: the mean over every share of wrong labels above 0."""
    return _between(rows, "best_accuracy", "wrong_labels", lambda values: fmean(values[1:]))


def gain_with_noise(rows: Sequence[Row]) -> Paired | None:
    """Of memorization: the gain with wrong labels minus the gain without."""
    return _between(
        rows, "best_accuracy", "wrong_labels", lambda values: fmean(values[1:]) - values[0]
    )


def under_pgd(name: str, attack: str) -> Callable[[Sequence[Row]], Paired | None]:
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

    def left(network: str) -> dict[int, float]:
        return {int(r["seed"]): float(r[PIXLE]) for r in rows if r["network"] == network}

    return paired(left(LEARNT), left(STANDARD))


def converted(lam: float, way: str, column: str) -> Callable[[Sequence[Row]], Paired | None]:
    """Of transfer: a converted network minus itself at lam = 0."""

    def value(rows: Sequence[Row], at: float) -> dict[int, float]:
        return {
            int(row["seed"]): float(row[column])
            for row in rows
            if row["way"] == way and float(row["lam"]) == at
        }

    return lambda rows: paired(value(rows, lam), value(rows, 0.0))


EFFECTS = (
    Effect("more accurate: best epoch", "learning-speed", best_accuracy),
    Effect("... after the last epoch", "learning-speed", last_accuracy),
    Effect(
        "needs fewer epochs for the accuracy both reach",
        "learning-speed",
        epochs_saved,
        "epochs",
        1.0,
        1,
    ),
    Effect("more accurate from less data, mean over fractions", "data-fraction", mean_over_data),
    Effect(
        "needs less data for the accuracy both reach",
        "data-fraction",
        data_saved,
        "points of the data",
        100.0,
        1,
    ),
    Effect(
        "more accurate at equal parameters, mean over widths", "expressivity", mean_over_channels
    ),
    Effect("more accurate with wrong labels", "memorization", mean_over_labels),
    Effect("the gain is larger with wrong labels than without", "memorization", gain_with_noise),
    Effect("more robust, the paper's PGD (transfer)", "pgd", under_pgd(LEARNT, "transfer")),
    Effect("more robust, white-box PGD", "pgd", under_pgd(LEARNT, "white_box")),
    Effect("lam = -0.2 more robust, white-box PGD", "pgd", under_pgd(NEGATIVE, "white_box")),
    Effect("more robust under Pixle", "pixle", under_pixle),
    Effect(
        "conversion to lam = -0.02 gains accuracy",
        "transfer",
        converted(-0.02, "old head", "accuracy"),
    ),
    Effect(
        "... gains robust accuracy",
        "transfer",
        converted(-0.02, "old head", "attacked"),
    ),
    Effect(
        "conversion to lam = -0.1 with a refitted head gains robust accuracy",
        "transfer",
        converted(-0.1, "refitted head", "attacked"),
    ),
)


def claim_rows(sources: Sources, datasets: Sequence[str]) -> list[list[str]]:
    """One row per claim: its cell for every dataset."""
    return [
        [effect.claim, *(effect.cell(sources.get(effect.experiment, name)) for name in datasets)]
        for effect in EFFECTS
    ]
