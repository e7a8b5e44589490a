"""What a user could do instead, on the exact equation: each takes y and lam and gives z, steps.

The iterations work with two ways to sum: `direct` is what one writes first, every pair, O(D^2);
`fast` lends them this library's O(D) sums, so that only the iteration is compared.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import ibnn

SLOPE = 10.0
# In float32 the residual of a row of 784 units ends at about 3e-6 in the Euclidean norm.
TOLERANCE, MOST_STEPS = 1e-5, 50

Solve = Callable[[Tensor, Tensor], tuple[Tensor, int]]
# f with the fixed point z = f(z), given y and lam
FixedPoint = Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]]


def fast(y: Tensor, lam: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda z: z - ibnn.residual(z, y, lam, SLOPE)


def direct(y: Tensor, lam: Tensor) -> Callable[[Tensor], Tensor]:
    def step(z: Tensor) -> Tensor:
        return y - lam * torch.tanh(SLOPE * (z[:, None, :] - z[:, :, None])).mean(-1)

    return step


def ours(y: Tensor, lam: Tensor) -> tuple[Tensor, int]:
    return _record(ibnn.solve(y, lam, SLOPE, on_failure="ignore"))


def lite(y: Tensor, lam: Tensor) -> tuple[Tensor, int]:
    """One explicit step: not the equation's solution."""
    return _record(ibnn.solve(y, lam, SLOPE, solver="lite", on_failure="ignore"))


def unrolled_picard(make: FixedPoint) -> Solve:
    """z <- f(z) until it stands still, differentiated through every step."""

    def solve(y: Tensor, lam: Tensor) -> tuple[Tensor, int]:
        f, z = make(y, lam), y
        for steps in range(1, MOST_STEPS + 1):
            moved = f(z)
            change = (moved - z).detach().norm(dim=-1).max()
            z = moved
            if change < TOLERANCE:
                return z, steps
        return z, MOST_STEPS

    return solve


def torchdeq_installed() -> bool:
    return importlib.util.find_spec("torchdeq") is not None


def torchdeq(make: FixedPoint, solver: str) -> Solve:
    """A deep equilibrium model of torchdeq 0.1.0 with exact implicit gradients."""
    from torchdeq import get_deq  # type: ignore[import-not-found]

    model: Any = get_deq(
        ift=True,
        f_solver=solver,
        b_solver=solver,
        f_max_iter=MOST_STEPS,
        b_max_iter=MOST_STEPS,
        f_tol=TOLERANCE,
        b_tol=TOLERANCE,
        b_stop_mode="rel",
    )

    def solve(y: Tensor, lam: Tensor) -> tuple[Tensor, int]:
        states, info = model(make(y, lam), y.detach())
        return states[-1], int(info["nstep"].max())

    return solve


def candidates(sums: str) -> dict[str, Solve]:
    """Every way to solve with these sums ("fast" or "direct"), ours and Lite first."""
    make = {"fast": fast, "direct": direct}[sums]
    found: dict[str, Solve] = {"ibnn": ours, "ibnn lite": lite}
    found["unrolled Picard"] = unrolled_picard(make)
    if torchdeq_installed():
        for solver in ("fixed_point_iter", "anderson", "broyden"):
            found[f"torchdeq {solver}"] = torchdeq(make, solver)
    return found


def _record(solution: ibnn.Solution) -> tuple[Tensor, int]:
    return solution.value, int(solution.steps.max())
