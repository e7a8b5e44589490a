"""What public arguments must be, told in one line that names the argument, its value and what was
expected."""

import math
from numbers import Integral, Real
from typing import Any

from torch import nn


def shown(value: Any) -> str:
    """A value as an error message shows it: in one line, what would be long by its type alone.

    >>> shown("space"), shown(list(range(99)))
    ("'space'", 'a list')
    """
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else f"a {type(value).__name__}"


def is_number(value: Any, kind: type = Real) -> bool:
    """True and False are no numbers here, though Python counts them among the integers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_whole(name: str, value: Any, least: int) -> None:
    if not is_number(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {shown(value)}")


def check_at_least_0(name: str, value: Any) -> None:
    if not is_number(value) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a number of at least 0, got {shown(value)}")


def check_positive(name: str, value: Any) -> None:
    if not is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive, got {shown(value)}")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")


def check_module(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {shown(model)}")
