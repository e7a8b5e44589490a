"""The experiment `controls-torch`: the arms from PyTorch's own initialization.

The published weights, N(0, 0.001), start the neuron where tanh is linear; these do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ibnn.lab.experiments.controls import claims, figures, tables
from ibnn.lab.experiments.controls.arms import FIRST, IMPLICIT, STANDARD
from ibnn.lab.experiments.controls.experiment import CURVES, DIFFERENCES, NOTES, RULE, Controls
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.results import Findings, Picture
from ibnn.lab.training import Result, RunConfig


class ControlsTorch(Controls):
    """The first six arms again, beside the published standard and implicit networks."""

    name = "controls-torch"
    title = "Controls with PyTorch's initialization"
    arm_names = FIRST

    def base(self, settings: Settings, **changes: Any) -> RunConfig:
        return super().base(settings, initialisation="torch", **changes)

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        return [*super().plan(settings, results), *published_pair(settings)]

    def measure(self, run: Run) -> dict[str, Any]:
        return {}

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        records, note = self.records(settings, runs), self.footnote(settings, runs)
        published = published_records(settings, runs)
        return Findings(
            headline=claims.headline(records),
            pictures=[
                Picture(self.name, figures.draw_curves(records, note), CURVES),
                Picture("differences", figures.draw_differences(records), DIFFERENCES),
            ],
            claims=[
                claims.remains(published, records, "with torch's initialization"),
                *claims.accuracy_claims(records),
                *claims.speed_claims(records),
            ],
            rows=[record.row() for record in records],
            tables=[tables.accuracy_table(records), tables.speed_table(records)],
            notes=NOTES[:1],
            rule=RULE,
            settings=self.settings_lines(settings),
        )


def published_pair(settings: Settings) -> list[RunConfig]:
    """The standard and implicit networks of `controls`, which a variant is compared with."""
    controls = Controls()
    chosen = [arm for arm in controls.arms(settings) if arm.name in (STANDARD, IMPLICIT)]
    return [
        arm.of(controls.base(settings, seed=seed))
        for seed in range(controls.preset(settings).seeds)
        for arm in chosen
    ]


def published_records(settings: Settings, runs: Sequence[Run]) -> Records:
    """Those of the published networks that have finished."""
    return Controls().records(settings, runs)
