"""Checks of the settings attacks share, each with one line that names what is wrong."""

from __future__ import annotations

import math
from collections.abc import Collection

from torch import Tensor


def need_eps(eps: float) -> None:
    if not (math.isfinite(eps) and eps >= 0):
        raise ValueError(f"eps is {eps}, expected a radius of 0 or more")


def need_count(name: str, value: int, least: int = 1) -> None:
    if not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}, expected a whole number of at least {least}")


def need_one_of(name: str, value: object, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(allowed)}")


def need_ball(norm: str) -> None:
    need_one_of("norm", norm, ("linf", "l2"))


def need_pictures(name: str, x: Tensor) -> None:
    if x.dim() != 4:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, expected (images, channels, height, width): "
            f"{name} moves pixels"
        )
