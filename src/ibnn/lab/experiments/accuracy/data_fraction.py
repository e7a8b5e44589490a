"""How much data each neuron needs: best accuracy against the fraction of the training data."""

from collections.abc import Sequence

from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.accuracy.sweep import Point, Sweep
from ibnn.lab.experiments.experiment import Settings
from ibnn.lab.experiments.readings import NOT_YET
from ibnn.lab.results import Claim
from ibnn.lab.stats import claim, difference, sentence
from ibnn.lab.training import RunConfig


class DataFraction(Sweep):
    """Every fraction of the data is trained for the full number of epochs."""

    name = "data-fraction"
    title = "Accuracy from less data"
    standard_seeds = 20
    column = "fraction"
    label = "fraction of the training data"
    shows = "Best validation accuracy against the fraction of the training data"
    reads_match = True
    caption = (
        "Median and 90 % band of the networks. Dashed: the best of the standard networks' median; "
        "circles: the fraction at which they have it, and the fraction at which the line through "
        "the implicit-bias networks' medians reaches it. Below: implicit minus standard of equal "
        "seeds, mean and 95 % interval."
    )

    def values(self, settings: Settings) -> Sequence[float]:
        return self.size(settings).fractions

    def at(self, config: RunConfig, value: float) -> RunConfig:
        return config.replace(share=value)

    def describe(self, value: float) -> str:
        return f"{100 * value:.0f} % of the data"

    def headline(self, comparison: Comparison, points: Sequence[Point]) -> str:
        saving, match = comparison.saving(), comparison.match()
        if match is None:
            return NOT_YET
        text = "The implicit-bias network needs {} data than the standard one"
        needs = sentence(saving, text, "less", "more")
        return f"{needs}: {_saved(comparison)}. {match.medians(_with)}"

    def claims(self, comparison: Comparison, points: Sequence[Point]) -> list[Claim]:
        match, over_all = comparison.match(), comparison.mean_difference()
        read = f"{match.medians(_with)} {match.singles(_percent)} " if match else ""
        return [
            claim(
                "IBNN needs 20 to 82 % (caption: 29 to 82 %) of the data to reach the standard "
                "network's best accuracy.",
                f"{read}To the highest accuracy both twins reach: {_saved(comparison)}",
                comparison.saving(),
            ),
            claim(
                "With equal data it is more accurate.",
                "Difference of best validation accuracy, mean over all fractions: "
                + difference(over_all),
                over_all,
            ),
        ]


def _saved(comparison: Comparison) -> str:
    return difference(comparison.saving(), "points of the data saved", scale=1, digits=1)


def _percent(x: float) -> str:
    return f"{x:.0f} %"


def _with(x: float) -> str:
    return f"with {x:.0f} % of the data"
