"""The frame of `controls`, its variants, `pareto` and `attack-suite`: arms with equal seeds.

A record is kept of every network; reports are made of records, so that rows of a CSV join them.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ibnn.lab.attacks import PGD
from ibnn.lab.experiments.arms import trained
from ibnn.lab.experiments.controls import claims
from ibnn.lab.experiments.controls.arms import ARMS, Arm
from ibnn.lab.experiments.controls.record import Record, Records
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.protocol import attack_line, protocol
from ibnn.lab.experiments.robustness.pgd import WHITE_BOX
from ibnn.lab.results import FEWEST_PAIRS, Claim, Findings, Picture, Table, questions
from ibnn.lab.training import Result, RunConfig


class ArmsExperiment(ImageExperiment):
    """Arms with equal seeds: same initial weights, warm-up, order of images and schedule."""

    datasets = ("svhn-resplit", "fashion-mnist", "svhn", "cifar10", "digits", "*")
    takes_lam = False
    arm_names: ClassVar[tuple[str, ...]]  # of `ARMS`, in the order of training
    record: ClassVar[type[Record]] = Record  # what is kept of a run

    @abstractmethod
    def headline(self, settings: Settings, records: Records) -> str:
        """The finding in a sentence or two."""

    @abstractmethod
    def pictures(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Picture]:
        """The figures; `runs` are those that are compared."""

    @abstractmethod
    def claims(self, settings: Settings, records: Records) -> list[Claim]:
        """The questions of the plan, and what was measured."""

    @abstractmethod
    def tables(self, settings: Settings, records: Records) -> list[Table]:
        """The arms in numbers."""

    def arms(self, settings: Settings) -> list[Arm]:
        """What is trained."""
        return [ARMS[name] for name in self.arm_names]

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

    def records(self, settings: Settings, runs: Sequence[Run]) -> Records:
        """The finished runs that are compared, by arm and seed."""
        return Records(self.record.of(arm.name, run) for arm, run in self._trained(settings, runs))

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
            claims=questions(self.claims(settings, records)),
            rows=[record.row() for record in records],
            tables=self.tables(settings, records),
            notes=claims.notes(records),
            rule=RULE,
            settings=self.settings_lines(settings, compared, elsewhere),
        )

    def settings_lines(
        self, settings: Settings, runs: Sequence[Run], elsewhere: Sequence[RunConfig] = ()
    ) -> list[tuple[str, str]]:
        """What arms change beside their neuron, the attack, and how the runs were trained."""
        others = [arm for arm in self.arms(settings) if {*arm.changes} - {"neuron"}]
        arms = [(f"Arm: {arm.name}", arm.about) for arm in others]
        attacked = any(WHITE_BOX in run.measured for run in runs)
        attack = [("Attack", attack_line(PGD(0.0), varied="eps"))] if attacked else []
        return [*arms, *attack, *protocol(runs, elsewhere=elsewhere)]

    def _trained(self, settings: Settings, runs: Sequence[Run]) -> list[tuple[Arm, Run]]:
        results = {run.config.identity(): run.result for run in runs}
        return trained(self.compared(settings, results), runs)


RULE = (
    "The plan, with its families and rules, was written before the runs: docs/verdict-plan.md. "
    "Within a family p values are corrected by Holm's method; yes and no need at least "
    f"{FEWEST_PAIRS} pairs and a corrected p below 0.05; the intervals shown are those of single "
    "comparisons."
)
