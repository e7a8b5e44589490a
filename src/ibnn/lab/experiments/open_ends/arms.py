"""The options, and the arm each is compared with."""

from typing import Any

from ibnn.lab.experiments.arms import IMPLICIT, STANDARD, Arm

FREE, PEAKED = "lam free", "non-monotonic sigma"
WINDOW, EXTENT = "window", "extent learnt"
SIDE = 7  # of the window; its Gaussian starts at a standard deviation of SIDE / 4

_WINDOW = {"coupling": "window", "window": SIDE, "window_profile": "gaussian"}


def _implicit(name: str, against: str, **changes: Any) -> Arm:
    return Arm(name, {"neuron": "implicit", **changes}, against)


ARMS = {
    arm.name: arm
    for arm in (
        Arm(STANDARD),
        _implicit(IMPLICIT, STANDARD),
        _implicit("slope learnt", IMPLICIT, learn_slope=True),
        _implicit("lam per channel", IMPLICIT, neuron="implicit-per-channel"),
        _implicit(WINDOW, IMPLICIT, **_WINDOW),
        _implicit(EXTENT, WINDOW, **_WINDOW, learn_window=True),
        _implicit(FREE, IMPLICIT, bounded=False),
        _implicit(PEAKED, FREE, bounded=False, sigma="peaked"),
    )
}
# The family of the plan: each option minus the arm it changes.
OPTIONS = tuple(name for name, arm in ARMS.items() if arm.against not in (None, STANDARD))
