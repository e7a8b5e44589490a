"""The experiment `controls`: every arm with the published settings, its accuracy and robustness."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ibnn.lab.attacks import PGD
from ibnn.lab.experiments.controls import claims, figures, tables
from ibnn.lab.experiments.controls.arms import ARMS, FIRST, Arm
from ibnn.lab.experiments.controls.frame import ArmsExperiment
from ibnn.lab.experiments.controls.record import SMOOTHED, Records
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import Size
from ibnn.lab.experiments.protocol import attack_line
from ibnn.lab.experiments.readings import amounts
from ibnn.lab.experiments.robustness.networks import attacked_images
from ibnn.lab.experiments.robustness.pgd import WHITE_BOX, pgd_curve, sizes
from ibnn.lab.results import Claim, Picture, Table

PAIRS = 10  # in preset paper
ATTACKED = 1000  # test images under attack


class ControlsAccuracy(ArmsExperiment):
    """What explicit maps do to accuracy and to the speed of learning."""

    def size(self, settings: Settings) -> Size:
        chosen = super().size(settings)
        return replace(chosen, seeds=PAIRS) if settings.preset == "paper" else chosen

    def arms(self, settings: Settings) -> list[Arm]:
        """On an expensive dataset only those that the question about the solve needs."""
        few = self.defaults(settings).expensive
        return [arm for arm in super().arms(settings) if not few or arm.name in FIRST]

    def headline(self, settings: Settings, records: Records) -> str:
        return claims.headline(records)

    def pictures(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Picture]:
        """Curves and differences."""
        note = f"{amounts(runs)}; number of networks in brackets"
        return [
            Picture(self.name, figures.draw_curves(records, note), CURVES),
            Picture("differences", figures.draw_differences(records), DIFFERENCES),
        ]

    def claims(self, settings: Settings, records: Records) -> list[Claim]:
        return [*claims.accuracy_claims(records), *claims.speed_claims(records)]

    def tables(self, settings: Settings, records: Records) -> list[Table]:
        return [tables.accuracy_table(records), tables.speed_table(records)]


class Controls(ControlsAccuracy):
    """The same, and what they do under attack."""

    name = "controls"
    title = "Controls: does the gain need the implicit solve?"
    arm_names = tuple(ARMS)

    def measure(self, run: Run) -> dict[str, Any]:
        """White-box accuracy at every eps, on the first test images."""
        x, y = (part[:ATTACKED] for part in attacked_images(run))
        return {"images": len(x), WHITE_BOX: pgd_curve(run, x, y)}

    def pictures(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Picture]:
        eps, images = sizes(self.dataset(settings)), runs[0].measured["images"]
        note = f"{attack_line(PGD(0.0), varied='eps')}; {images:,} test images; medians"
        attacked = Picture("attacked", figures.draw_attacked(records, eps, note), ATTACK)
        return [*super().pictures(settings, records, runs), attacked]

    def claims(self, settings: Settings, records: Records) -> list[Claim]:
        return [*super().claims(settings, records), *claims.robust_claims(records)]

    def tables(self, settings: Settings, records: Records) -> list[Table]:
        robust = tables.robust_table(records, sizes(self.dataset(settings)))
        return [*super().tables(settings, records), robust]


CURVES = (
    f"Validation accuracy by epoch, the median of each arm (running mean of {SMOOTHED} epochs); "
    "the standard and the implicit network are in every panel."
)
DIFFERENCES = (
    "Differences of best accuracy between networks of equal seeds: mean and 95 % interval, not "
    "corrected. The gray band on the right is 0.3 points either way: an interval inside it counts "
    "as equivalent."
)
ATTACK = (
    "Accuracy against the size of the attack, each network attacked with its own exact gradients."
)
