"""The experiment `controls-torch`: the arms from PyTorch's own initialization.

The published weights, N(0, 0.001), start the neuron where tanh is linear; these do not.
"""

from typing import Any

from ibnn.lab.experiments.controls.variant import Variant
from ibnn.lab.experiments.experiment import Settings
from ibnn.lab.training import RunConfig


class ControlsTorch(Variant):
    """Everything else as published."""

    name = "controls-torch"
    title = "Controls with PyTorch's initialization"
    change = "with torch's initialization"

    def base(self, settings: Settings, **changes: Any) -> RunConfig:
        return super().base(settings, initialisation="torch", **changes)
