"""The first six arms trained otherwise, beside the published standard and implicit networks.

The experiment `controls-torch` is one: the published weights, N(0, 0.001), start the neuron where
tanh is linear, PyTorch's own initialization does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ibnn.lab.experiments.controls import claims
from ibnn.lab.experiments.controls.arms import FIRST, IMPLICIT, STANDARD
from ibnn.lab.experiments.controls.experiment import Controls, ControlsAccuracy
from ibnn.lab.experiments.controls.record import Record, Records
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.results import Findings, questions
from ibnn.lab.training import Result, RunConfig


class Variant(ControlsAccuracy):
    """Does the gain of the published settings remain with others?"""

    arm_names = FIRST
    change: ClassVar[str]  # "with tuned learning rates"

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        published = Controls().compared(settings, {})
        pair = [config for arm, config in published if arm.name in (STANDARD, IMPLICIT)]
        return [*super().plan(settings, results), *pair]

    def possible(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        """The runs that may be compared, given the results so far."""
        return [config for _, config in self.compared(settings, results)]

    def joinable(self, settings: Settings) -> list[RunConfig]:
        own = self.possible(settings, {})
        return [*super().joinable(settings), *own, *Controls().plan(_published(settings), {})]

    def find_with(
        self, settings: Settings, runs: Sequence[Run], rows: Sequence[Mapping[str, str]]
    ) -> Findings:
        results = {run.config.identity(): run.result for run in runs}
        # A run may be both: an arm whose tuned rate is the published one. But what was published
        # is no arm of this experiment because its rate might have been picked.
        known = {config.identity() for _, config in self.compared(settings, results)}
        possible = {config.identity() for config in self.possible(settings, results)}
        names = {config.identity() for config in Controls().plan(_published(settings), {})}
        ours = {
            row["run"]: row
            for row in rows
            if row["run"] in known
            or (row["run"] in possible and row.get("experiment", self.name) == self.name)
        }
        findings = super().find_with(settings, runs, list(ours.values()))
        elsewhere = [Record.from_row(row) for row in rows if row["run"] in names]
        published = Records([*elsewhere, *Controls().records(settings, runs)])
        changed = Records.from_rows(findings.rows)
        remains = claims.remains(published, changed, self.change)
        return replace(findings, claims=[*questions([remains]), *findings.claims])


def _published(settings: Settings) -> Settings:
    """Of `controls`: every pair it has by itself, though a variant be asked for fewer or others."""
    own = Controls().preset(replace(settings, seeds=None)).seeds
    return replace(settings, first_seed=0, seeds=max(Controls().seeds(settings).stop, own))


class ControlsTorch(Variant):
    """Everything else as published."""

    name = "controls-torch"
    title = "Controls with PyTorch's initialization"
    change = "with torch's initialization"

    def base(self, settings: Settings, **changes: Any) -> RunConfig:
        return super().base(settings, initialisation="torch", **changes)
