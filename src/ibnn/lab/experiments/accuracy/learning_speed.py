"""How many epochs each neuron needs: validation accuracy while it is trained."""

from collections.abc import Mapping, Sequence

from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.accuracy.figures import Axis
from ibnn.lab.experiments.accuracy.sweep import Point, Sweep
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import EPOCHS
from ibnn.lab.experiments.readings import NOT_YET, numbers
from ibnn.lab.results import Claim
from ibnn.lab.stats import claim, difference, running_mean, sentence
from ibnn.lab.training import RunConfig

SMOOTHED = 3  # epochs of the running mean


class LearningSpeed(Sweep):
    """One network of each seed and neuron; its validations are the curve."""

    name = "learning-speed"
    title = "Learning speed"
    cheap = True
    standard_seeds = 20
    column = "channels"
    label = "epoch"
    shows = f"Validation accuracy while training, running mean of {SMOOTHED} epochs"
    reads_match = True
    caption = (
        "Median and 90 % band of the networks; warm-up is not counted. Dashed: the best of the "
        "standard networks' median; circles: when they have it, and when the implicit-bias "
        "networks' median reaches it. Below: implicit minus standard of equal seeds, mean and "
        "95 % interval."
    )

    def values(self, settings: Settings) -> Sequence[float]:
        return [float(self.base(settings).channels)]

    def usual_channels(self, settings: Settings) -> int:
        published = self.defaults(settings).learning_speed_channels
        usual = super().usual_channels(settings)
        return published if published and settings.preset == "paper" else usual

    def at(self, config: RunConfig, value: float) -> RunConfig:
        return config.replace(channels=int(value))

    def describe(self, value: float) -> str:
        return f"{value:g} channels"

    def axis(self, points: Sequence[Point]) -> Axis:
        return Axis(self.label, _epoch, marks=False)

    def compare(self, axis: Axis, points: Sequence[Point]) -> Comparison:
        (point,) = points
        last = max((run.config.epochs for run in point.runs), default=0)
        xs = range(1, last + 1)
        return Comparison(list(xs), _curves(point.standard), _curves(point.implicit))

    def headline(self, comparison: Comparison, points: Sequence[Point]) -> str:
        match = comparison.match()
        if match is None:
            return NOT_YET
        text = "The implicit-bias network learns {} than the standard one"
        faster = sentence(comparison.saving(), text, "faster", "more slowly")
        return f"{faster}: {_saved(comparison)}. {match.medians(_in_epoch)}"

    def claims(self, comparison: Comparison, points: Sequence[Point]) -> list[Claim]:
        (point,) = points
        match, over_all = comparison.match(), comparison.mean_difference()
        accuracy = point.difference()
        read = f"{match.medians(_in_epoch)} {match.singles(_epoch)} " if match else ""
        return [
            claim(
                f"IBNN matches the standard network's best accuracy in 18 to 25 of {EPOCHS} "
                "epochs, where the standard network needs 53 or more: it learns faster.",
                f"Of {len(comparison.xs)} epochs. {read}To the highest accuracy both twins "
                f"reach: {_saved(comparison)}",
                comparison.saving(),
            ),
            claim(
                "It is ahead while it learns.",
                "Difference of validation accuracy, mean over all epochs: " + difference(over_all),
                over_all,
            ),
            claim(
                "Its best accuracy is higher.",
                f"Difference of best validation accuracy: {difference(accuracy)}",
                accuracy,
            ),
        ]

    def rows(self, points: Sequence[Point]) -> list[dict[str, object]]:
        """One line for each epoch."""
        return [row for point in points for run in point.runs for row in _rows(run)]


def _curves(runs: Mapping[int, Run]) -> dict[int, list[float]]:
    return {
        seed: running_mean([line.accuracy for line in run.validations()], SMOOTHED)
        for seed, run in runs.items()
    }


def _saved(comparison: Comparison) -> str:
    return difference(comparison.saving(), "epochs saved", scale=1, digits=1)


def _epoch(x: float) -> str:
    return f"{x:.0f}" if x == round(x) else f"{x:.1f}"


def _in_epoch(x: float) -> str:
    return f"in epoch {_epoch(x)}"


def _rows(run: Run) -> list[dict[str, object]]:
    lines = run.validations()
    smooth = running_mean([line.accuracy for line in lines], SMOOTHED)
    return [
        {
            "neuron": run.config.neuron,
            "seed": run.config.seed,
            "epoch": line.epoch,
            "accuracy": line.accuracy,
            "running_mean": round(value, 6),
            "train_accuracy": line.train_accuracy,
            "loss": line.loss,
            "learning_rate": line.learning_rate,
            "lam": numbers(line.lam),
            "run": run.result.identity,
        }
        for line, value in zip(lines, smooth, strict=True)
    ]
