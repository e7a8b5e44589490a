"""The paper's second mode: an implicit-bias network made from a trained standard one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ibnn.lab import data
from ibnn.lab.experiments.accuracy.learning_speed import LearningSpeed
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.transfer import findings
from ibnn.lab.experiments.transfer.conversions import LAMBDAS, conversions, margin_curve
from ibnn.lab.experiments.transfer.figures import draw_conversions, draw_margin_curve
from ibnn.lab.experiments.transfer.readings import Conversions, rows, tables
from ibnn.lab.results import RULE, Findings, Picture
from ibnn.lab.training import Result, RunConfig


class Transfer(ImageExperiment):
    """Nothing is trained but the standard networks of learning-speed, which it shares."""

    name = "transfer"
    title = "From a trained standard network, without retraining"
    standard_seeds = LearningSpeed.standard_seeds
    takes_lam = False
    measure_version = 3

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        trained = LearningSpeed().plan(replace(settings, lam=None), {})
        return [config for config in trained if config.neuron == "standard"]

    def measure(self, run: Run) -> dict[str, Any]:
        """Accuracy of the converted network for every lam, and the margins of a small one."""
        examples = run.examples()
        defaults = data.defaults(run.config.dataset, examples.image_shape)
        return {
            **conversions(run.network(), examples, defaults.transfer_eps),
            "margin": margin_curve(examples, LAMBDAS, run.config.seed),
        }

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        found = Conversions(runs)
        note = findings.footnote(found, runs)
        pictures = [Picture("transfer", draw_conversions(found, note), CONVERSIONS)]
        if found.margins:
            figure = draw_margin_curve(found, findings.margin_footnote(found))
            pictures.append(Picture("margin", figure, MARGINS))
        return Findings(
            headline=findings.headline(found),
            pictures=pictures,
            claims=findings.claims(found),
            rows=rows(runs),
            tables=tables(found),
            notes=findings.notes(found),
            rule=f"{RULE} {OTHERS}",
            settings=findings.settings_lines(found, runs),
        )


OTHERS = (
    "Two claims say themselves what decides them: accuracy is kept or lost by intervals beside a "
    "loss of one point, and a bound that is proven holds if no margin is below it."
)
CONVERSIONS = (
    "Median and 90 % band of the networks, against λ; blue: not converted. Old head: only λ is "
    "added, as in the paper. Batch norm recalibrated: its running statistics computed anew on "
    "training images. Refitted head: the last layer fitted anew. Top: accuracy. Bottom: robust "
    "accuracy under the same white-box attack on each converted network itself."
)
MARGINS = (
    "One hidden layer, no batch norm, head of length 1; median and 90 % band against λ. Dotted: "
    "what the paper proves to be left of the margin; dashed: a sharper bound, from how far all "
    "units together can move."
)
