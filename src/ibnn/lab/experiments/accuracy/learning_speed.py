"""How many epochs each neuron needs: validation accuracy while it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ibnn.lab.experiments.accuracy import tables as words
from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.accuracy.figures import Axis, draw_comparison, draw_lam
from ibnn.lab.experiments.accuracy.sweep import Point, Sweep
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import EPOCHS
from ibnn.lab.results import Claim, Findings, Picture
from ibnn.lab.stats import decide, percent, running_mean
from ibnn.lab.training import RunConfig

SMOOTHED = 3  # epochs of the running mean
CIFAR_CHANNELS = 16  # the published figure has UCN(3,16) there


class LearningSpeed(Sweep):
    """One network of each seed and neuron; its validations are the curve."""

    name = "learning-speed"
    title = "Learning speed"
    standard_seeds = 20

    def values(self, settings: Settings) -> Sequence[float]:
        central = self.central(settings).channels
        published = self.dataset(settings) == "cifar10" and settings.preset == "paper"
        return [float(CIFAR_CHANNELS if published else central)]

    def at(self, config: RunConfig, value: float) -> RunConfig:
        return config.replace(channels=int(value))

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        (point,) = self.points(settings, runs)
        preset, mode = self.preset(settings), self.mode(settings)
        xs = list(range(1, preset.epochs + 1))
        comparison = Comparison(xs, _curves(point.standard, xs), _curves(point.implicit, xs))
        match = comparison.match()
        axis = Axis("epoch", lambda x: f"{x:.0f}" if x == round(x) else f"{x:.1f}")
        note = words.footnote(preset, runs)
        smoothed = f"; running mean of {SMOOTHED} epochs"
        figure = draw_comparison(comparison, axis, note + smoothed, match, marks=False)
        learnt = {"": list(point.implicit.values())} if point.implicit else {}
        return Findings(
            headline=_headline(comparison, preset.epochs),
            pictures=[
                Picture("learning-speed", figure, _CAPTION),
                Picture("lam", draw_lam(learnt), "λ while it is trained, every network."),
            ],
            claims=_claims(comparison, point, preset.epochs),
            rows=[row for group in (point.standard, point.implicit) for row in _rows(group)],
            tables=[words.point_table([point], "Channels", lambda value: f"{value:g}")],
            notes=words.notes(
                "An epoch here is a pass over the training images used; the two warm-up epochs "
                "are not counted, as in the paper.",
                "The running mean is centred; at the ends it has two epochs.",
            ),
            settings=words.settings_lines(self, settings, mode, runs),
        )


_CAPTION = (
    "Validation accuracy against epoch, median and 90 % band of the networks. Dashed: the best of "
    "the standard networks' median; circles: when they have it, and when the implicit-bias "
    "networks reach it. Below: implicit minus standard of equal seeds, mean and 95 % interval."
)


def _curves(runs: Mapping[int, Run], xs: Sequence[int]) -> dict[int, list[float]]:
    curves: dict[int, list[float]] = {}
    for seed, run in runs.items():
        by_epoch = {m.epoch: m.accuracy for m in run.metrics() if m.stage == "training"}
        curves[seed] = running_mean([by_epoch[x] for x in xs], SMOOTHED)
    return curves


def _headline(comparison: Comparison, epochs: int) -> str:
    match = comparison.match()
    if match is None:
        return words.NOT_YET
    return (
        f"The standard network has its best, {percent(match.level)}, in epoch {match.standard:g} "
        f"of {epochs}; the implicit-bias network reaches it "
        f"{match.text('in epoch ', lambda x: f'{x:.1f}')}."
    )


def _claims(comparison: Comparison, point: Point, epochs: int) -> list[Claim]:
    match, saving = comparison.match(), comparison.saving()
    accuracy = point.difference()
    over_all = comparison.mean_difference()
    matched = (
        f"Of {epochs} epochs: standard best {percent(match.level)} in epoch {match.standard:g}; "
        f"implicit {match.text('in epoch ', lambda x: f'{x:.1f}')}. "
        if match
        else ""
    )
    return [
        Claim(
            f"IBNN matches the standard network's best accuracy in 18 to 25 of {EPOCHS} epochs, "
            "where the standard network needs 53 or more: it learns faster.",
            matched
            + "Epochs saved to the highest accuracy both twins reach: "
            + words.in_units(saving, "epochs"),
            decide(saving, "more"),
        ),
        Claim(
            "It is ahead while it learns.",
            "Difference of validation accuracy, mean over all epochs: "
            + words.difference(over_all),
            decide(over_all, "more"),
        ),
        Claim(
            "Its best accuracy is higher.",
            f"Difference of best validation accuracy: {words.difference(accuracy)}",
            decide(accuracy, "more"),
        ),
    ]


def _rows(runs: Mapping[int, Run]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for run in runs.values():
        lines = [m for m in run.metrics() if m.stage == "training"]
        smooth = running_mean([m.accuracy for m in lines], SMOOTHED)
        rows += [
            {
                "neuron": run.config.neuron,
                "seed": run.config.seed,
                "epoch": m.epoch,
                "accuracy": m.accuracy,
                "running_mean": round(value, 6),
                "train_accuracy": m.train_accuracy,
                "loss": m.loss,
                "learning_rate": m.learning_rate,
                "lam": " ".join(f"{v:.5g}" for v in m.lam),
                "run": run.result.identity,
            }
            for m, value in zip(lines, smooth, strict=True)
        ]
    return rows
