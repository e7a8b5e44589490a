"""Checks of the settings attacks have in common, each with one line that names what is wrong."""

import math
from collections.abc import Collection
from typing import Any

from torch import Tensor


def check_settings(attack: Any, *counts: str) -> None:
    """The ball an attack moves in, the fraction of pixels it starts with, and its `counts`."""
    check_ball(attack.norm)
    if hasattr(attack, "eps"):
        check_eps(attack.eps)
    fraction = getattr(attack, "fraction", 1)
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction is {fraction}, expected above 0 and at most 1")
    check_counts(attack, *counts)


def check_counts(attack: Any, *names: str) -> None:
    for name in names:
        value = getattr(attack, name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}, expected a whole number of at least 1")


def check_eps(eps: float) -> None:
    if not (math.isfinite(eps) and eps >= 0):
        raise ValueError(f"eps is {eps}, expected a radius of 0 or more")


def check_one_of(name: str, value: object, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(allowed)}")


def check_ball(norm: str) -> None:
    check_one_of("norm", norm, ("linf", "l2"))


def check_pictures(name: str, x: Tensor) -> None:
    if x.dim() != 4:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, expected (images, channels, height, width): "
            f"{name} moves pixels"
        )
