"""What wrong labels do to each neuron: best accuracy against their share."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from ibnn.lab.experiments.accuracy import tables as words
from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.accuracy.figures import Axis, draw_comparison, draw_lam
from ibnn.lab.experiments.accuracy.sweep import Point, Sweep, readings
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.results import Claim, Findings, Picture, Table
from ibnn.lab.stats import Paired, decide, paired, running_mean
from ibnn.lab.training import RunConfig


class Memorization(Sweep):
    """Wrong labels are in the training data only; validation labels stay clean."""

    name = "memorization"
    title = "Learning with wrong labels"
    standard_seeds = 10

    def values(self, settings: Settings) -> Sequence[float]:
        return self.size(settings).wrong_labels

    def at(self, config: RunConfig, value: float) -> RunConfig:
        return config.replace(label_noise=value)

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        points = self.points(settings, runs)
        comparison = self.comparison(points, [100 * point.value for point in points])
        axis = Axis("wrong labels in the training data, %", lambda x: f"{x:.0f} %", comparison.xs)
        note = words.footnote(self.preset(settings), runs)
        lam = {f"{p.value:.0%} wrong": list(p.implicit.values()) for p in points}
        return Findings(
            headline=_headline(points),
            pictures=[
                Picture("memorization", draw_comparison(comparison, axis, note), _CAPTION),
                Picture("lam", draw_lam(lam), "λ while it is trained, by wrong labels."),
            ],
            claims=_claims(comparison, points),
            rows=words.point_rows(points, "wrong_labels"),
            tables=[
                words.point_table(points, "Wrong labels", lambda share: f"{share:.0%}"),
                _declines(points),
            ],
            notes=words.notes(
                "A wrong label is drawn uniformly among the other classes. For one seed the "
                "labels wrong at a smaller share are wrong in the same way at a larger one, and "
                "for both neurons.",
            ),
            settings=words.settings_lines(self, settings, self.mode(settings), runs),
        )


_CAPTION = (
    "Best validation accuracy against the share of wrong training labels, median and 90 % band. "
    "Below: implicit minus standard of equal seeds, mean and 95 % interval."
)


def decline_begins(accuracies: Sequence[float], width: int = 3) -> int:
    """The epoch (from 1) from which validation accuracy only declines: after it the running mean
    never rises again. The last epoch means that it does not decline.

    >>> decline_begins([0.1, 0.5, 0.9, 0.5, 0.4, 0.3])
    3
    """
    smooth = running_mean(accuracies, width)
    epoch = len(smooth)
    while epoch > 1 and smooth[epoch - 1] < smooth[epoch - 2]:
        epoch -= 1
    return epoch


def gain_with_noise(points: Sequence[Point]) -> Paired | None:
    """The gain over the standard network, mean over all shares of wrong labels, minus the gain
    without wrong labels; by seed."""
    gains = _gains(points)
    noisy = [gains[p.value] for p in points if p.value > 0]
    if 0.0 not in gains or not noisy:
        return None
    seeds = set.intersection(*(set(gain) for gain in noisy))
    return paired({s: fmean(gain[s] for gain in noisy) for s in seeds}, gains[0.0])


def widening(points: Sequence[Point]) -> Paired | None:
    """The slope of the gain over the share of wrong labels (least squares), by seed."""
    gains = _gains(points)
    seeds = set.intersection(*(set(gain) for gain in gains.values())) if gains else set()
    centre = fmean(gains) if gains else 0.0
    weight = sum((value - centre) ** 2 for value in gains)
    if not weight:
        return None
    slopes = {
        seed: sum((value - centre) * gain[seed] for value, gain in gains.items()) / weight
        for seed in seeds
    }
    return paired(slopes, dict.fromkeys(slopes, 0.0))


def _gains(points: Sequence[Point]) -> dict[float, dict[int, float]]:
    found: dict[float, dict[int, float]] = {}
    for point in points:
        standard, implicit = readings(point.standard), readings(point.implicit)
        seeds = standard.keys() & implicit.keys()
        found[point.value] = {seed: implicit[seed] - standard[seed] for seed in seeds}
    return found


def _headline(points: Sequence[Point]) -> str:
    found, clean = gain_with_noise(points), points[0].difference()
    if found is None:
        return words.NOT_YET
    return (
        f"The gain over the standard network is {words.difference(clean)} without wrong labels; "
        f"with them it changes by {words.difference(found)}."
    )


def _claims(comparison: Comparison, points: Sequence[Point]) -> list[Claim]:
    more, slope = gain_with_noise(points), widening(points)
    over_all = comparison.mean_difference()
    gains = "; ".join(
        f"{point.value:.0%} wrong {words.difference(point.difference())}" for point in points
    )
    return [
        Claim(
            "IBNN is more accurate than the standard network with wrong labels.",
            f"Mean over all shares: {words.difference(over_all)}. {gains}.",
            decide(over_all, "more"),
        ),
        Claim(
            "The gain is larger with wrong labels than without.",
            f"Mean gain with wrong labels minus the gain without: {words.difference(more)}",
            decide(more, "more"),
        ),
        Claim(
            "In some cases (SVHN) the gain widens with the share of wrong labels.",
            f"Slope of the gain: {words.in_units(slope, 'points per 10 % of labels', 10.0)}",
            decide(slope, "more"),
        ),
    ]


def _declines(points: Sequence[Point]) -> Table:
    def middle(runs: Sequence[Run]) -> str:
        epochs = [
            decline_begins([m.accuracy for m in run.metrics() if m.stage == "training"])
            for run in runs
        ]
        last = max((run.config.epochs for run in runs), default=0)
        return f"{median(epochs):g} of {last}" if epochs else "none"

    return Table(
        "Epoch from which validation accuracy only declines (median; the last one: it does not)",
        ("Wrong labels", "Standard", "Implicit bias"),
        [
            (
                f"{point.value:.0%}",
                middle(list(point.standard.values())),
                middle(list(point.implicit.values())),
            )
            for point in points
        ],
    )
