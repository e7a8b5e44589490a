"""The experiment `pareto`: is there a network that is both more accurate and more robust?"""

from __future__ import annotations

from collections.abc import Sequence

from ibnn.lab.experiments.controls.arms import Arm
from ibnn.lab.experiments.controls.experiment import Controls
from ibnn.lab.experiments.experiment import Preset, Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.pareto import claims, figures
from ibnn.lab.experiments.pareto.arms import MAP, map_arms
from ibnn.lab.results import Findings, Picture


class Pareto(Controls):
    """Arms with equal seeds, attacked as those of `controls`, whose runs it shares."""

    name = "pareto"
    title = "Accuracy and robustness in one network?"

    def preset(self, settings: Settings) -> Preset:
        return ImageExperiment.preset(self, settings)  # five pairs, not ten

    def arms(self, settings: Settings) -> list[Arm]:
        return map_arms(self.defaults(settings).layers)

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        records = self.records(settings, runs)
        note = self.footnote(settings, runs).replace("; number of networks in brackets", "")
        return Findings(
            headline=claims.headline(records),
            pictures=[Picture("pareto", figures.draw_map(records, note), CAPTION)],
            claims=[claims.both_promises(records), *claims.arm_claims(records)],
            rows=[record.row() for record in records],
            tables=[claims.table(records, list(MAP))],
            notes=NOTES,
            settings=self.settings_lines(settings),
        )


CAPTION = (
    "Robust against clean accuracy. Small dots are networks, large ones the medians of their arms; "
    "the dashed line joins the arms that no other one beats in both."
)
NOTES = (
    "Clean and robust accuracy are of the network after its last epoch; nothing was trained to "
    "resist attacks. Robust accuracy is the mean over eps of one white-box attack of 10 steps; "
    "stronger attacks leave less (`ibnn attack`).",
    "All comparisons of arms with the standard network are one family: p values are corrected by "
    "Holm's method, and yes and no need at least five pairs.",
    "Above the threshold of uniqueness the equation may have several solutions; which one is found "
    "depends on the start.",
)
