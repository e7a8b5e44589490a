"""What wrong labels do to each neuron: best accuracy against their fraction."""

from collections.abc import Sequence
from statistics import fmean, linear_regression, median

from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.accuracy.sweep import Point, Sweep
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.readings import (
    NOT_YET,
    Reading,
    best_accuracy,
    last_accuracy,
    readings,
)
from ibnn.lab.results import Claim, Table
from ibnn.lab.stats import Paired, claim, difference, paired, running_mean, sentence
from ibnn.lab.training import RunConfig


class Memorization(Sweep):
    """Wrong labels are in the training data only; validation labels stay clean."""

    name = "memorization"
    title = "Learning with wrong labels"
    standard_seeds = 10
    column = "wrong_labels"
    label = "wrong labels in the training data"
    shows = "Best validation accuracy against wrong labels in the training data"
    caption = (
        "Median and 90 % band of the networks; validation labels are clean. Below: implicit minus "
        "standard of equal seeds, mean and 95 % interval."
    )

    def values(self, settings: Settings) -> Sequence[float]:
        return self.size(settings).wrong_labels

    def at(self, config: RunConfig, value: float) -> RunConfig:
        return config.replace(label_noise=value)

    def describe(self, value: float) -> str:
        return f"{100 * value:.0f} % wrong"

    def tables(self, points: Sequence[Point]) -> list[Table]:
        return [*super().tables(points), self._declines(points)]

    def headline(self, comparison: Comparison, points: Sequence[Point]) -> str:
        found, clean = gain_with_noise(points), points[0].difference()
        if found is None:
            return NOT_YET
        text = "The gain over the standard network is {} with wrong labels than without"
        grows = sentence(found, text, "larger", "smaller")
        return f"{grows}: it changes by {difference(found)}, from {difference(clean)} without."

    def claims(self, comparison: Comparison, points: Sequence[Point]) -> list[Claim]:
        more, slope = gain_with_noise(points), widening(points)
        noisy = noisy_gains(points)
        with_noise = paired(noisy, dict.fromkeys(noisy, 0.0))
        last = noisy_gains(points, last_accuracy)
        at_last = paired(last, dict.fromkeys(last, 0.0))
        gains = "; ".join(f"{self.describe(p.value)} {difference(p.difference())}" for p in points)
        return [
            claim(
                "IBNN is more accurate than the standard network with wrong labels.",
                f"Mean over all fractions above 0: {difference(with_noise)}; after the last epoch "
                f"{difference(at_last)}. {gains}.",
                with_noise,
            ),
            claim(
                "The gain is larger with wrong labels than without.",
                f"Mean gain with wrong labels minus the gain without: {difference(more)}",
                more,
            ),
            claim(
                "In some cases (SVHN) the gain widens with the fraction of wrong labels.",
                f"Slope of the gain: {difference(slope, 'points per 10 % of labels', 10, 1)}",
                slope,
            ),
        ]

    def _declines(self, points: Sequence[Point]) -> Table:
        rows = [
            (self.describe(point.value), neuron, *_decline(list(networks.values())))
            for point in points
            for neuron, networks in (
                ("standard", point.standard),
                ("implicit bias", point.implicit),
            )
        ]
        columns = ("", "Neuron", "Best epoch", "Points lost by the last", "Only declines from")
        return Table("After the best epoch (medians; the mean of the points lost)", columns, rows)


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
    """The gain with wrong labels minus the gain without."""
    return paired(noisy_gains(points), _gains(points).get(0.0, {}))


def noisy_gains(points: Sequence[Point], reading: Reading = best_accuracy) -> dict[int, float]:
    """The gain over the standard network, mean over all fractions of wrong labels above 0, of each
    seed that has them all."""
    noisy = [gain for fraction, gain in _gains(points, reading).items() if fraction > 0]
    seeds = set.intersection(*map(set, noisy)) if noisy else set()
    return {seed: fmean(gain[seed] for gain in noisy) for seed in seeds}


def widening(points: Sequence[Point]) -> Paired | None:
    """The slope of the gain over the fraction of wrong labels (least squares), by seed."""
    gains = _gains(points)
    if len(gains) < 2:
        return None
    seeds = set.intersection(*map(set, gains.values()))
    fractions = list(gains)
    slopes = {
        seed: linear_regression(fractions, [gain[seed] for gain in gains.values()]).slope
        for seed in seeds
    }
    return paired(slopes, dict.fromkeys(slopes, 0.0))


def _gains(
    points: Sequence[Point], reading: Reading = best_accuracy
) -> dict[float, dict[int, float]]:
    found: dict[float, dict[int, float]] = {}
    for point in points:
        standard, implicit = (readings(r, reading) for r in (point.standard, point.implicit))
        seeds = standard.keys() & implicit.keys()
        found[point.value] = {seed: implicit[seed] - standard[seed] for seed in seeds}
    return found


def _decline(runs: Sequence[Run]) -> tuple[str, str, str]:
    """Best epoch, points lost after it, and the epoch from which accuracy only declines."""
    if not runs:
        return "none", "", ""
    epochs = max(run.config.epochs for run in runs)
    best = median(run.result.best_epoch for run in runs)
    lost = fmean(best_accuracy(run) - last_accuracy(run) for run in runs)
    begins = median(decline_begins([line.accuracy for line in run.validations()]) for run in runs)
    return (
        f"{best:g} of {epochs}",
        f"{100 * lost:.1f}",
        "never" if begins == epochs else f"{begins:g}",
    )
