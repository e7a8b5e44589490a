"""The arms of the map: those of the controls, and attempts to join accuracy and robustness."""

from ibnn.lab.experiments.controls.arms import ARMS, DECAY, IMPLICIT, NEGATIVE, STANDARD, Arm

_FIXED = {"neuron": "implicit", "learn_lam": False}
_JOINING = (
    Arm("first layer -0.2, then learnt", {"neuron": "implicit-first-fixed", "lam": -0.2}),
    Arm("both signs, per channel", {"neuron": "implicit-per-channel", "lam": 0.05}),
    Arm("lam = -0.2, slope learnt", {**_FIXED, "lam": -0.2, "learn_slope": True}),
    Arm("lam = -0.05", {**_FIXED, "lam": -0.05}),
    Arm("learnt above the threshold", {"neuron": "implicit", "bounded": False}),
    Arm("window of 7", {"neuron": "implicit", "coupling": "window", "window": 7}),
    Arm("window of 7, lam = -0.2", {**_FIXED, "lam": -0.2, "coupling": "window", "window": 7}),
)
KNOWN = (STANDARD, IMPLICIT, NEGATIVE, "shrink", DECAY, "mean-field", "instance-norm")
MAP = {name: ARMS[name] for name in KNOWN} | {arm.name: arm for arm in _JOINING}


def map_arms(layers: int) -> list[Arm]:
    """What is trained; a single layer has no first one to treat apart."""
    first = _JOINING[0].name
    return [arm for arm in MAP.values() if layers > 1 or arm.name != first]
