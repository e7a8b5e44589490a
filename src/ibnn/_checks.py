"""What public arguments must be, told in one line that names the argument, its value and what was
expected."""

import math
from numbers import Integral, Real
from typing import Any


def is_number(value: Any, kind: type = Real) -> bool:
    """True and False are no numbers here, though Python counts them among the integers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_whole(name: str, value: Any, least: int) -> None:
    if not is_number(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_at_least_0(name: str, value: Any) -> None:
    if not is_number(value) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a number of at least 0, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    if not is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive, got {value!r}")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
