"""What each neuron makes of its parameters: best accuracy against the size of the network."""

from collections.abc import Sequence

from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.accuracy.figures import Axis
from ibnn.lab.experiments.accuracy.sweep import Point, Sweep
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.readings import NOT_YET
from ibnn.lab.results import Answer, Claim
from ibnn.lab.stats import claim, decide, difference, sentence
from ibnn.lab.training import RunConfig


class Expressivity(Sweep):
    """The channels of every layer vary; layers and kernel stay."""

    name = "expressivity"
    title = "Accuracy at equal size"
    takes_channels = False
    cheap = True
    standard_seeds = 10
    column = "channels"
    label = "trainable parameters of the standard network"
    shows = "Best validation accuracy against the size of the network"
    caption = (
        "Median and 90 % band of the networks; channels vary. Below: implicit minus standard of "
        "equal seeds, mean and 95 % interval."
    )

    def values(self, settings: Settings) -> Sequence[float]:
        return [float(channels) for channels in self.size(settings).widths]

    def at(self, config: RunConfig, value: float) -> RunConfig:
        return config.replace(channels=int(value))

    def describe(self, value: float) -> str:
        return f"{value:g} channel{'' if value == 1 else 's'}"

    def points(self, settings: Settings, runs: Sequence[Run]) -> list[Point]:
        return [point for point in super().points(settings, runs) if point.standard]

    def axis(self, points: Sequence[Point]) -> Axis:
        # lam is no reason to shift a point: both neurons stand at the standard one's count
        sizes = [float(next(iter(p.standard.values())).result.parameters) for p in points]
        return Axis(self.label, lambda x: f"{x / 1000:.3g}k", sizes, log=True)

    def headline(self, comparison: Comparison, points: Sequence[Point]) -> str:
        found = comparison.mean_difference()
        if found is None:
            return NOT_YET
        text = "At equal size the implicit-bias network is {} accurate than the standard one"
        better = sentence(found, text, "more", "less")
        return f"{better}: best accuracy, mean over {len(points)} sizes, {difference(found)}."

    def claims(self, comparison: Comparison, points: Sequence[Point]) -> list[Claim]:
        over_all = comparison.mean_difference()
        each = {self.describe(point.value): point.difference() for point in points}
        answers: list[Answer] = [decide(found, "more") for found in each.values()]
        listed = "; ".join(f"{name} {difference(found)}" for name, found in each.items())
        every: Answer = "yes" if set(answers) == {"yes"} else "not decided"
        return [
            claim(
                "With as many parameters IBNN is more accurate.",
                f"Mean over all sizes: {difference(over_all)}",
                over_all,
            ),
            Claim(
                "It is so at every size.",
                f"{listed}. Decided: {answers.count('yes')} yes, {answers.count('no')} no of "
                f"{len(answers)}.",
                "no" if "no" in answers else every,
            ),
        ]
