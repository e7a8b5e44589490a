"""What each neuron makes of its parameters: best accuracy against the size of the network."""

from __future__ import annotations

from collections.abc import Sequence

from ibnn.lab.experiments.accuracy import tables as words
from ibnn.lab.experiments.accuracy.comparison import Comparison
from ibnn.lab.experiments.accuracy.figures import Axis, draw_comparison, draw_lam
from ibnn.lab.experiments.accuracy.sweep import Point, Sweep
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.results import Answer, Claim, Findings, Picture
from ibnn.lab.stats import decide
from ibnn.lab.training import RunConfig


class Expressivity(Sweep):
    """The channels of every layer vary; layers and kernel stay."""

    name = "expressivity"
    title = "Accuracy at equal size"
    standard_seeds = 10

    def values(self, settings: Settings) -> Sequence[float]:
        return [float(c) for c in self.size(settings).widths or self.central(settings).widths]

    def at(self, config: RunConfig, value: float) -> RunConfig:
        return config.replace(channels=int(value))

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        # lam is no reason to shift a point: both neurons stand at the standard one's count
        points = [p for p in self.points(settings, runs) if p.standard]
        sizes = [next(iter(p.standard.values())).result.parameters for p in points]
        comparison = self.comparison(points, [float(size) for size in sizes])
        axis = Axis("trainable parameters", lambda x: f"{x / 1000:.3g}k", comparison.xs, log=True)
        note = words.footnote(self.preset(settings), runs)
        lam = {f"{p.value:g} channels": list(p.implicit.values()) for p in points}
        return Findings(
            headline=_headline(comparison, points),
            pictures=[
                Picture("expressivity", draw_comparison(comparison, axis, note), _CAPTION),
                Picture("lam", draw_lam(lam), "λ while it is trained, by channels."),
            ],
            claims=_claims(comparison, points),
            rows=words.point_rows(points, "channels"),
            tables=[words.point_table(points, "Channels", lambda c: f"{c:g}")],
            notes=words.notes(
                "The paper does not list its numbers of channels: these are ours. Parameters are "
                "those of the standard network; the implicit one has one more per layer.",
            ),
            settings=words.settings_lines(self, settings, self.mode(settings), runs),
        )


_CAPTION = (
    "Best validation accuracy against the number of trainable parameters (channels vary), median "
    "and 90 % band. Below: implicit minus standard of equal seeds, mean and 95 % interval."
)


def _headline(comparison: Comparison, points: Sequence[Point]) -> str:
    found = comparison.mean_difference()
    if found is None:
        return words.NOT_YET
    return (
        f"At equal size the implicit-bias network's best accuracy differs from the standard one's "
        f"by {words.difference(found)}, mean over {len(points)} sizes."
    )


def _claims(comparison: Comparison, points: Sequence[Point]) -> list[Claim]:
    over_all = comparison.mean_difference()
    each = [point.difference() for point in points]
    answers: list[Answer] = [decide(found, "more") for found in each]
    listed = "; ".join(
        f"{p.value:g} channels {words.difference(d)}" for p, d in zip(points, each, strict=True)
    )
    every: Answer = answers[0] if len(set(answers)) == 1 else "not decided"
    return [
        Claim(
            "With as many parameters IBNN is more accurate.",
            f"Mean over all sizes: {words.difference(over_all)}",
            decide(over_all, "more"),
        ),
        Claim(
            "It is so at every size.",
            f"{listed}. Decided: {answers.count('yes')} yes, {answers.count('no')} no of "
            f"{len(answers)}.",
            "no" if "no" in answers else every,
        ),
    ]
