"""Checks that tell a robust model from one that only hides: run with every evaluation."""

from __future__ import annotations

from collections.abc import Callable

from ibnn.lab.attacks.checks.check import Check, Subject
from ibnn.lab.attacks.checks.forward import solved, verified
from ibnn.lab.attacks.checks.gradients import finite_differences, present
from ibnn.lab.attacks.checks.strength import (
    adaptive,
    falls_with_eps,
    iterative,
    more_restarts,
    more_steps,
    unbounded,
    white_box,
)

__all__ = ["CHECKS", "Check", "Subject"]

CHECKS: tuple[Callable[[Subject], Check], ...] = (
    falls_with_eps,
    unbounded,
    more_steps,
    more_restarts,
    iterative,
    white_box,
    present,
    finite_differences,
    solved,
    adaptive,
    verified,
)
