"""The arms: networks that differ in their neuron, or in one thing it might stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
        """What it changes, by the names of the fields."""
        return ", ".join(f"{name} {value}" for name, value in self.changes.items())


# The families of the plan: implicit minus each of these.
CLOSE = ("mean-field", "lite", "gain", "instance-norm")
FURTHER = (
    *("instance-norm-affine", "group-norm", "local-response-norm", "divisive", "squeeze-excite"),
    DECAY,
)
# (implicit, lam = -0.2) minus each of these, under attack.
AGAINST_NEGATIVE = (STANDARD, "shrink", DECAY)

FIRST = (STANDARD, IMPLICIT, "mean-field", "instance-norm", "gain", "lite")
FEW = FIRST[:4]  # where training is expensive

ARMS = {
    arm.name: arm
    for arm in (
        Arm(STANDARD),
        *(Arm(kind, {"neuron": kind}) for kind in (*FIRST[1:], *FURTHER[:-1])),
        Arm(DECAY, {"weight_decay": WEIGHT_DECAY}),
        Arm(NEGATIVE, {"neuron": "implicit", "lam": NEGATIVE_LAM, "learn_lam": False}),
        Arm("shrink", {"neuron": "shrink"}),
    )
}
