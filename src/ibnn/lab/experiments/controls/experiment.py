"""The experiment `controls`: every arm with the published settings, its accuracy and robustness."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ibnn.lab.attacks import PGD
from ibnn.lab.experiments.arms import trained
from ibnn.lab.experiments.controls import claims, figures, tables
from ibnn.lab.experiments.controls.arms import ARMS, FEW, Arm
from ibnn.lab.experiments.controls.record import SMOOTHED, Record, Records
from ibnn.lab.experiments.experiment import Preset, Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.protocol import attack_line, protocol
from ibnn.lab.experiments.readings import amounts
from ibnn.lab.experiments.robustness.networks import attacked_images
from ibnn.lab.experiments.robustness.pgd import WHITE_BOX, pgd_curve, sizes
from ibnn.lab.results import FEWEST_PAIRS, Claim, Findings, Picture, Table, questions
from ibnn.lab.training import Result, RunConfig

PAIRS = 10  # in preset paper
ATTACKED = 1000  # test images under attack


class Controls(ImageExperiment):
    """Arms with equal seeds: same initial weights, warm-up, order of images and schedule."""

    name = "controls"
    title = "Controls: does the gain need the implicit solve?"
    datasets = ("svhn-resplit", "fashion-mnist", "svhn", "cifar10", "digits", "*")
    takes_lam = False
    attacks: ClassVar[bool] = True  # whether networks are attacked, or only trained
    arm_names: ClassVar[tuple[str, ...]] = tuple(ARMS)
    record: ClassVar[type[Record]] = Record  # what is kept of a run

    def preset(self, settings: Settings) -> Preset:
        chosen = super().preset(settings)
        full = settings.preset == "paper" and not settings.seeds
        return replace(chosen, seeds=PAIRS) if full else chosen

    def arms(self, settings: Settings) -> list[Arm]:
        """What is trained; on an expensive dataset only the arms that matter most."""
        few = self.defaults(settings).expensive
        return [ARMS[name] for name in self.arm_names if not few or name in FEW]

    def compared(
        self, settings: Settings, results: Mapping[str, Result]
    ) -> list[tuple[Arm, RunConfig]]:
        """The runs that are compared; seed by seed: whatever has finished is paired."""
        return [
            (arm, arm.of(self.base(settings, seed=seed)))
            for seed in self.seeds(settings)
            for arm in self.arms(settings)
        ]

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        return [config for _, config in self.compared(settings, results)]

    def measure(self, run: Run) -> dict[str, Any]:
        """White-box accuracy at every eps, on the first test images."""
        if not self.attacks:
            return {}
        x, y = (part[:ATTACKED] for part in attacked_images(run))
        return {"images": len(x), WHITE_BOX: pgd_curve(run, x, y)}

    def records(self, settings: Settings, runs: Sequence[Run]) -> Records:
        """The finished runs that are compared, by arm and seed."""
        return Records(self.record.of(arm.name, run) for arm, run in self._trained(settings, runs))

    def _trained(self, settings: Settings, runs: Sequence[Run]) -> list[tuple[Arm, Run]]:
        results = {run.config.identity(): run.result for run in runs}
        return trained(self.compared(settings, results), runs)

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        return self.find_with(settings, runs, ())

    def find_with(
        self, settings: Settings, runs: Sequence[Run], rows: Sequence[Mapping[str, str]]
    ) -> Findings:
        joined = [*map(self.record.from_row, rows), *self.records(settings, runs)]
        order = [arm.name for arm in self.arms(settings)]
        records = Records(sorted(joined, key=lambda record: (order.index(record.arm), record.seed)))
        # without runs that only tuned something
        compared = [run for _, run in self._trained(settings, runs)] or runs
        names = {row["run"] for row in rows}
        elsewhere = [c for c in self.plan(settings, {}) if c.identity() in names]
        return Findings(
            headline=self.headline(settings, records),
            pictures=self.pictures(settings, records, compared),
            claims=questions(self.claims(settings, records, runs)),
            rows=[record.row() for record in records],
            tables=self.tables(settings, records, runs),
            notes=claims.notes(records),
            rule=RULE,
            settings=self.settings_lines(settings, compared, elsewhere),
        )

    def headline(self, settings: Settings, records: Records) -> str:
        return claims.headline(records)

    def pictures(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Picture]:
        """Curves and differences; and robust accuracy, where networks were attacked."""
        note = f"{amounts(runs)}; number of networks in brackets"
        made = [
            Picture(self.name, figures.draw_curves(records, note), CURVES),
            Picture("differences", figures.draw_differences(records), DIFFERENCES),
        ]
        if self.attacks:
            eps, images = sizes(self.dataset(settings)), runs[0].measured["images"]
            note = f"{attack_line(PGD(0.0), varied='eps')}; {images:,} test images; medians"
            made.append(Picture("attacked", figures.draw_attacked(records, eps, note), ATTACK))
        return made

    def claims(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Claim]:
        """The questions of the plan, and what was measured."""
        found = [*claims.accuracy_claims(records), *claims.speed_claims(records)]
        return [*found, *claims.robust_claims(records)] if self.attacks else found

    def tables(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Table]:
        found = [tables.accuracy_table(records), tables.speed_table(records)]
        eps = sizes(self.dataset(settings))
        return [*found, tables.robust_table(records, eps)] if self.attacks else found

    def settings_lines(
        self, settings: Settings, runs: Sequence[Run], elsewhere: Sequence[RunConfig] = ()
    ) -> list[tuple[str, str]]:
        """What arms change beside their neuron, the attack, and how the runs were trained."""
        others = [arm for arm in self.arms(settings) if {*arm.changes} - {"neuron"}]
        arms = [(f"Arm: {arm.name}", arm.about) for arm in others]
        attack = [("Attack", attack_line(PGD(0.0), varied="eps"))] if self.attacks else []
        return [*arms, *attack, *protocol(runs, elsewhere=elsewhere)]


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
RULE = (
    "The plan, with its families and rules, was written before the runs: docs/verdict-plan.md. "
    "Within a family p values are corrected by Holm's method; yes and no need at least "
    f"{FEWEST_PAIRS} pairs and a corrected p below 0.05; the intervals shown are those of single "
    "comparisons."
)
