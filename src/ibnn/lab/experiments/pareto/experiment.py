"""The experiment `pareto`: is there a network that is both more accurate and more robust?"""

from collections.abc import Sequence

from ibnn.lab.experiments.controls.arms import Arm
from ibnn.lab.experiments.controls.experiment import Controls
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.experiment import Preset, Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.pareto import claims, figures
from ibnn.lab.experiments.pareto.arms import MAP, map_arms
from ibnn.lab.experiments.readings import amounts
from ibnn.lab.results import Claim, Picture, Table


class Pareto(Controls):
    """Arms with equal seeds, attacked as those of `controls`, whose runs it shares."""

    name = "pareto"
    title = "Accuracy and robustness in one network?"

    def preset(self, settings: Settings) -> Preset:
        return ImageExperiment.preset(self, settings)  # five pairs, not ten

    def arms(self, settings: Settings) -> list[Arm]:
        return map_arms(self.defaults(settings).layers)

    def headline(self, records: Records) -> str:
        return claims.headline(records)

    def pictures(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Picture]:
        return [Picture("pareto", figures.draw_map(records, amounts(runs)), CAPTION)]

    def claims(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Claim]:
        return [claims.both_promises(records), *claims.arm_claims(records)]

    def tables(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Table]:
        return [claims.table(records, list(MAP))]


CAPTION = (
    "Robust against clean accuracy, both of the network after its last epoch; robust accuracy is "
    "the mean over eps above 0. Small dots are networks, large ones the medians of their arms; the "
    "dashed line joins the arms that no other one beats in both."
)
