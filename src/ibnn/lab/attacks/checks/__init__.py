"""Checks for gradient masking and unsolved equations: run with every evaluation."""

from collections.abc import Callable

from ibnn.lab.attacks.checks.check import Check, Target
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

__all__ = ["CHECKS", "PASSES", "Check", "Target"]

# Passes of an image of the sample through the model in all checks, a gradient counted as two: 4
# radii of PGD (124), 2 unbounded (302), 10 and 40 steps (152), 1 and 5 restarts (186), one step
# (4), margin, noise, search, Square and transfer (213), four other gradients of which the unrolled
# one is slow (about 250), and a few in double precision.
PASSES = 1250

CHECKS: tuple[Callable[[Target], Check], ...] = (
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
