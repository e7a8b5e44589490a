"""How much data each neuron needs: best accuracy against the share of the training data."""

from __future__ import annotations

from collections.abc import Sequence

from ibnn.lab.experiments.accuracy import tables as words
from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.accuracy.figures import Axis, draw_comparison, draw_lam
from ibnn.lab.experiments.accuracy.sweep import Sweep
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.results import Claim, Findings, Picture
from ibnn.lab.stats import decide, percent
from ibnn.lab.training import RunConfig


class DataFraction(Sweep):
    """Every share of the data is trained for the full number of epochs."""

    name = "data-fraction"
    title = "Accuracy from less data"
    standard_seeds = 20

    def values(self, settings: Settings) -> Sequence[float]:
        return self.size(settings).shares

    def at(self, config: RunConfig, value: float) -> RunConfig:
        return config.replace(share=value)

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        points = self.points(settings, runs)
        comparison = self.comparison(points, [100 * point.value for point in points])
        axis = Axis("share of the training data, %", _percent, comparison.xs)
        note = words.footnote(self.preset(settings), runs)
        figure = draw_comparison(comparison, axis, note, comparison.match())
        lam = {f"{p.value:.0%} of the data": list(p.implicit.values()) for p in points}
        return Findings(
            headline=_headline(comparison),
            pictures=[
                Picture("data-fraction", figure, _CAPTION),
                Picture("lam", draw_lam(lam), "λ while it is trained, by share of the data."),
            ],
            claims=_claims(comparison),
            rows=words.point_rows(points, "share"),
            tables=[words.point_table(points, "Share", lambda share: f"{share:.0%}")],
            notes=words.notes(
                "The paper does not say which shares it trained, nor for how long: the shares are "
                "ours, and each is trained for the full number of epochs, so that less data "
                "means fewer steps.",
                "Subsets are drawn by class; for one seed a smaller share lies inside a larger "
                "one, and both neurons get the same.",
            ),
            settings=words.settings_lines(self, settings, self.mode(settings), runs),
        )


_CAPTION = (
    "Best validation accuracy against the share of the training data, median and 90 % band. "
    "Dashed: the best of the standard networks' median; circles: the share at which they have it, "
    "and the share at which the line through the implicit-bias networks' medians reaches it. "
    "Below: implicit minus standard of equal seeds, mean and 95 % interval."
)


def _percent(x: float) -> str:
    return f"{x:.0f} %"


def _headline(comparison: Comparison) -> str:
    match = comparison.match()
    if match is None:
        return words.NOT_YET
    return (
        f"The standard network has its best, {percent(match.level)}, with "
        f"{_percent(match.standard)} of the data; the implicit-bias network reaches it "
        f"{match.text('with ', _percent)}."
    )


def _claims(comparison: Comparison) -> list[Claim]:
    match, saving = comparison.match(), comparison.saving()
    over_all = comparison.mean_difference()
    matched = (
        f"Standard best {percent(match.level)} with {_percent(match.standard)} of the data; "
        f"implicit {match.text('with ', _percent)}. "
        if match
        else ""
    )
    return [
        Claim(
            "IBNN needs 20 to 82 % (caption: 29 to 82 %) of the data to reach the standard "
            "network's best accuracy.",
            matched
            + "Data saved to the highest accuracy both twins reach: "
            + words.in_units(saving, "points of share"),
            decide(saving, "more"),
        ),
        Claim(
            "With equal data it is more accurate.",
            "Difference of best validation accuracy, mean over all shares: "
            + words.difference(over_all),
            decide(over_all, "more"),
        ),
    ]
