"""The arms: networks that differ in their neuron, or in one thing it might stand for."""

from ibnn.lab.experiments.arms import IMPLICIT, NEGATIVE_LAM, STANDARD, Arm

WEIGHT_DECAY = 5e-4

NEGATIVE = f"implicit, lam = {NEGATIVE_LAM:g}"
DECAY = "weight decay"


# The families of the plan: implicit minus each of these.
CLOSE = ("mean-field", "lite", "gain", "instance-norm")
FURTHER = (
    *("instance-norm-affine", "group-norm", "local-response-norm", "divisive", "squeeze-excite"),
    DECAY,
)
# (implicit, lam = -0.2) minus each of these, under attack.
AGAINST_NEGATIVE = (STANDARD, "shrink", DECAY)

# The order of training; all there are where training is expensive.
FIRST = (STANDARD, IMPLICIT, "mean-field", "instance-norm", "gain", "lite")

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
