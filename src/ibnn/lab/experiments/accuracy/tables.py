"""What the accuracy experiments say alike: settings, notes, rows and tables of their reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from ibnn.lab.experiments.accuracy.sweep import Point, best_accuracy
from ibnn.lab.experiments.experiment import Preset, Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.lam_modes import LamMode
from ibnn.lab.models.ucn import kernel_side
from ibnn.lab.results import Table
from ibnn.lab.stats import Paired, band, percent

NOT_YET = "Not all runs are finished: no comparison yet."


def difference(found: Paired | None) -> str:
    """A paired difference of accuracies, also if it is not known."""
    return found.percentage_points() if found else "not known yet"


def in_units(found: Paired | None, unit: str, scale: float = 1.0) -> str:
    """A paired difference of something else.

    >>> in_units(Paired(2.0, 1.0, 3.0, 5), "epochs")
    '+2.0 epochs (95 % interval +1.0 to +3.0, 5 pairs)'
    """
    if found is None:
        return "not known yet"
    mean, low, high = found.signed(scale)
    return f"{mean} {unit} (95 % interval {low} to {high}, {found.count} pairs)"


def footnote(preset: Preset, runs: Sequence[Run]) -> str:
    """The instances, epochs and images used, to stand in a figure."""
    train, test = max(r.result.n_train for r in runs), max(r.result.n_test for r in runs)
    return (
        f"{preset.epochs} epochs, {train:,} training and {test:,} test images; number of networks "
        "in brackets"
    )


def settings_lines(
    experiment: ImageExperiment,
    settings: Settings,
    mode: LamMode,
    runs: Sequence[Run],
) -> list[tuple[str, str]]:
    """How the runs were trained."""
    results = {run.config.identity(): run.result for run in runs}
    central, preset = experiment.central(settings), experiment.preset(settings)
    side = {"fashion-mnist": 28, "digits": 8}.get(experiment.dataset(settings), 32)
    return [
        (
            "Network",
            f"UCN({central.layers},{central.channels}), kernel {kernel_side(side)} for images of "
            f"{side} x {side}; convolution, implicit bias, ReLU, batch normalisation; one linear "
            "head",
        ),
        ("Neuron", "sigma(z) = tanh(10 z), w = 1/D inside each channel, exact solve"),
        ("λ", mode.about(results)),
        (
            "Training",
            f"{preset.epochs} epochs after 2 of warm-up with standard neurons, the same for both",
        ),
        (
            "Optimizer",
            "SGD, momentum 0.9, batch 128, learning rate 0.001 to 0.01 and back, "
            "gradient norm at most 1",
        ),
        ("Initialisation", "the published one: convolutions N(0, 0.001), head N(0, 0.0005)"),
        (
            "Seeds",
            f"{experiment.instances(settings)} standard, {preset.seeds} implicit; equal seeds "
            "share first weights, data order and subsets",
        ),
    ]


def notes(*own: str) -> list[str]:
    """Cautions every accuracy experiment shares, after its own."""
    return [
        *own,
        "The standard network is the same code with its implicit bias left out; both neurons get "
        "the same seeds, data, warm-up, epochs and schedule, and the implicit one has one "
        "parameter more per layer.",
        "Best validation accuracy means the best epoch on the test split, as in the paper: a "
        "maximum over epochs flatters both networks alike.",
        "Bands are quantiles of the instances, as the paper counts them (its band of 100 % is the "
        "whole range). Yes and no in the table need at least five pairs of seeds and a 95 % "
        "confidence interval of the paired difference that excludes zero; intervals are not "
        "corrected for the number of comparisons.",
    ]


def run_row(run: Run, **more: Any) -> dict[str, Any]:
    """One line of the CSV."""
    config, result = run.config, run.result
    return {
        **more,
        "neuron": config.neuron,
        "seed": config.seed,
        "best_accuracy": result.best_accuracy,
        "best_epoch": result.best_epoch,
        "accuracy": result.accuracy,
        "train_accuracy": result.train_accuracy,
        "loss": result.loss,
        "lam": " ".join(f"{value:.5g}" for value in result.lam),
        "parameters": result.parameters,
        "n_train": result.n_train,
        "epochs": result.epochs,
        "run": result.identity,
    }


def point_rows(points: Sequence[Point], name: str) -> list[dict[str, Any]]:
    """One line per run of a sweep."""
    return [
        run_row(run, **{name: point.value})
        for point in points
        for group in (point.standard, point.implicit)
        for run in group.values()
    ]


def point_table(points: Sequence[Point], name: str, write: Callable[[float], str]) -> Table:
    """Both neurons and their paired difference at every value."""
    return Table(
        "Best validation accuracy: median and 90 % band",
        (name, "Standard", "Implicit bias", "Paired difference", "λ learnt or used"),
        [
            (
                write(point.value),
                _band(point.standard),
                _band(point.implicit),
                difference(point.difference()),
                _lam(point.implicit),
            )
            for point in points
        ],
    )


def _band(runs: Mapping[int, Run]) -> str:
    if not runs:
        return "none"
    found = band([best_accuracy(run) for run in runs.values()])
    return f"{percent(found.median)} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def _lam(runs: Mapping[int, Run]) -> str:
    found = [run.result.lam for run in runs.values()]
    if not found:
        return "none"
    return ", ".join(f"{median(values):.3f}" for values in zip(*found, strict=True))
