"""The paper's second mode: an implicit-bias network made from a trained standard one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ibnn.lab.experiments.accuracy.learning_speed import LearningSpeed
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.transfer import findings as words
from ibnn.lab.experiments.transfer.conversions import LAMBDAS, conversions
from ibnn.lab.experiments.transfer.figures import draw_conversions, draw_margins
from ibnn.lab.experiments.transfer.margin import margin_curve
from ibnn.lab.experiments.transfer.readings import Transferred
from ibnn.lab.experiments.transfer.tables import rows, tables
from ibnn.lab.models import UCN
from ibnn.lab.results import Findings, Picture
from ibnn.lab.training import Result, RunConfig


class Transfer(ImageExperiment):
    """Nothing is trained but the standard networks of learning-speed, which it shares."""

    name = "transfer"
    title = "From a trained standard network, without retraining"
    standard_seeds = LearningSpeed.standard_seeds
    takes_lam = False
    measures = 3

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        trained = LearningSpeed().plan(replace(settings, lam=None), {})
        return [config for config in trained if config.neuron == "standard"]

    def measure(self, run: Run) -> dict[str, Any]:
        """Accuracy of the converted network for every lam, and the margins of a small one."""
        network, examples = run.network(), run.examples()
        assert isinstance(network, UCN)
        return {
            **conversions(network, examples),
            "margin": margin_curve(examples, LAMBDAS, run.config.seed),
        }

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        found = Transferred(runs)
        note = words.footnote(found, runs)
        pictures = [Picture("transfer", draw_conversions(found, note), words.CONVERSIONS)]
        if found.margins:
            figure = draw_margins(found, words.margin_footnote(found))
            pictures.append(Picture("margin", figure, words.MARGINS))
        return Findings(
            headline=words.headline(found),
            pictures=pictures,
            claims=words.claims(found),
            rows=rows(runs),
            tables=tables(found),
            notes=words.notes(found),
            settings=words.settings_lines(self, settings, found, runs),
        )
