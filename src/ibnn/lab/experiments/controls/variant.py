"""The first six arms trained otherwise, beside the published standard and implicit networks.

The experiment `controls-torch` is one: the published weights, N(0, 0.001), start the neuron where
tanh is linear, PyTorch's own initialization does not.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ibnn.lab.experiments.controls import claims
from ibnn.lab.experiments.controls.arms import FIRST, IMPLICIT, STANDARD
from ibnn.lab.experiments.controls.experiment import Controls
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.results import Claim
from ibnn.lab.training import Result, RunConfig


class Variant(Controls):
    """Does the gain of the published settings remain with others?"""

    attacks = False
    arm_names = FIRST
    change: ClassVar[str]  # "with tuned learning rates"

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        published = Controls().compared(settings, {})
        pair = [config for arm, config in published if arm.name in (STANDARD, IMPLICIT)]
        return [*super().plan(settings, results), *pair]

    def claims(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Claim]:
        published = Controls().records(settings, runs)
        remains = claims.remains(published, records, self.change)
        return [remains, *super().claims(settings, records, runs)]


class ControlsTorch(Variant):
    """Everything else as published."""

    name = "controls-torch"
    title = "Controls with PyTorch's initialization"
    change = "with torch's initialization"

    def base(self, settings: Settings, **changes: Any) -> RunConfig:
        return super().base(settings, initialisation="torch", **changes)
