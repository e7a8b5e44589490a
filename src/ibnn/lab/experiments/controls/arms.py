"""The arms: networks that differ in their neuron, or in one thing it might stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ibnn.lab.models import neuron_kind
from ibnn.lab.training import RunConfig

NEGATIVE_LAM = -0.2
WEIGHT_DECAY = 5e-4

STANDARD, IMPLICIT = "standard", "implicit"
NEGATIVE = f"implicit, lam = {NEGATIVE_LAM:g}"
DECAY = "weight decay"


@dataclass(frozen=True)
class Arm:
    """One arm: its name in tables, and what it changes in the config of a standard network."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def of(self, standard: RunConfig) -> RunConfig:
        """The run of this arm with the seed and everything else of a standard one."""
        return standard.replace(**self.changes)

    @property
    def about(self) -> str:
        """Its map, in a line."""
        if self.name == DECAY:
            return f"z = y, trained with weight decay {WEIGHT_DECAY:g}"
        return neuron_kind(self.changes.get("neuron", "standard")).about


def _kind(name: str) -> Arm:
    return Arm(name, {"neuron": name})


ARMS = {
    arm.name: arm
    for arm in (
        Arm(STANDARD),
        _kind(IMPLICIT),
        _kind("mean-field"),
        _kind("instance-norm"),
        _kind("gain"),
        _kind("lite"),
        _kind("instance-norm-affine"),
        _kind("group-norm"),
        _kind("local-response-norm"),
        _kind("divisive"),
        _kind("squeeze-excite"),
        Arm(DECAY, {"weight_decay": WEIGHT_DECAY}),
        Arm(NEGATIVE, {"neuron": "implicit", "lam": NEGATIVE_LAM, "learn_lam": False}),
        _kind("shrink"),
    )
}

# The families of the plan: implicit minus each of these.
CLOSE = ("mean-field", "lite", "gain", "instance-norm")
FURTHER = (
    "instance-norm-affine",
    "group-norm",
    "local-response-norm",
    "divisive",
    "squeeze-excite",
    DECAY,
)
# (implicit, lam = -0.2) minus each of these, under attack.
AGAINST_NEGATIVE = (STANDARD, "shrink", DECAY)

FIRST = (STANDARD, IMPLICIT, "mean-field", "instance-norm", "gain", "lite")
FEW = FIRST[:4]  # where training is expensive
