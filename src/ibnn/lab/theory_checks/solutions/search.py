"""Above the threshold: every solution that many starts lead to, and how stable each one is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import ibnn
from ibnn.lab.theory_checks.numerics.operator import BiasOperator
from ibnn.lab.theory_checks.solutions.uniqueness import smallest_eigenvalue

# Costs: with these and 32 starts a search takes 1 to 2 s of one core at 128 units, 9 s at 256.
SADDLE_UNITS = 256  # longest row whose saddles are searched: each Newton step is a dense solve
SADDLE_STARTS = 16  # pairs of minima between which saddles are searched
SEGMENT_POINTS = 32  # of the energy between two minima, to start at its highest
NEWTON_STEPS = 40
LAM_STEPS = 16  # of a solution followed in lam
SOLVED = 1e-9  # residual of a solution, relative to what it is made of: 1000 times the solver's own


@dataclass(frozen=True)
class Solutions:
    """The distinct solutions of one row, by energy, lowest first."""

    values: Tensor  # (solutions, *units)
    energies: Tensor
    smallest: Tensor  # eigenvalue of J: positive at a minimum, negative at a saddle
    found_by: Sequence[str]  # the kind of start that came first to each
    starts: int  # how many were tried
    converged: int  # how many of them led to a solution

    @property
    def stable(self) -> Tensor:
        """Which are minima of the energy."""
        return self.smallest > 0

    def __len__(self) -> int:
        return len(self.values)


def find_solutions(
    y: Tensor,
    lam: float,
    slope: float = 10.0,
    coupling: ibnn.Coupling | None = None,
    sigma: str | ibnn.Sigma = "tanh",
    *,
    starts: int = 64,
    generator: torch.Generator | None = None,
    separation: float = 1e-6,
) -> Solutions:
    """The distinct solutions z of one row y (of the coupling's units), as far as starts find them.

    Starts: y itself; units pushed apart as they are ordered, and the other way round; `starts`
    random ones (in the box |z - y| <= lam that holds every solution, and in random orders);
    solutions followed in lam, up from 0 and down from 3 lam; and the highest points between
    minima, from which Newton's method without descent finds saddles. More starts may find more.

    >>> y = torch.zeros(2, dtype=torch.float64)
    >>> found = find_solutions(y, 0.15)  # threshold 0.1: apart either way, or balanced between
    >>> len(found), found.stable.tolist()
    (3, [True, True, False])
    """
    if not isinstance(starts, int) or starts < 0:
        raise ValueError(f"starts must be a non-negative int, got {starts!r}")
    if not math.isfinite(lam):
        raise ValueError(f"lam must be finite, got {lam!r}")
    y = y.detach().double()
    generator = generator or torch.Generator().manual_seed(0)
    arguments: dict[str, Any] = {"slope": slope, "coupling": coupling, "sigma": sigma}
    kinds, points = _starts(y, lam, starts, generator)
    lams = [torch.linspace(a, lam, LAM_STEPS, dtype=torch.float64) for a in (0.0, 3 * lam)]
    inputs = y.expand(LAM_STEPS, 2, *y.shape)
    followed = follow(inputs, torch.stack(lams, 1), inputs[0], **arguments)[-1]
    kinds, points = [*kinds, "up", "down"], torch.cat([points, followed])
    values, good = _settle(y, lam, points, arguments)
    kept = _distinct(values, good, separation)
    minima = values[kept]
    if y.numel() <= SADDLE_UNITS and len(minima) > 1:
        between = _between(y, lam, minima, min(starts, SADDLE_STARTS), arguments)
        saddles, fine = _newton(y, lam, between, arguments)
        kinds += ["between"] * len(between)
        values, good = torch.cat([values, saddles]), torch.cat([good, fine])
        kept = _distinct(values, good, separation)
    return _describe(y, lam, values, kept, kinds, int(good.sum()), arguments, generator)


def follow(
    inputs: Tensor, lams: Tensor, start: Tensor, noise: float = 0.0, **arguments: Any
) -> Tensor:
    """Solutions along tracks of inputs (steps, tracks, *units) and lams (steps, tracks).

    Each step starts where the one before ended (the first from `start`), moved by `noise` at random
    so that no saddle holds it.
    """
    generator = torch.Generator().manual_seed(0)
    z, path = start, []
    for y, lam in zip(inputs, lams, strict=True):
        moved = z + noise * torch.randn(z.shape, generator=generator, dtype=z.dtype)
        z = ibnn.solve(y, lam, start=moved, on_failure="ignore", **arguments).value
        path.append(z)
    return torch.stack(path)


def _starts(
    y: Tensor, lam: float, count: int, generator: torch.Generator
) -> tuple[list[str], Tensor]:
    flat = y.reshape(-1)
    ranks = flat.argsort().argsort().double()
    units = flat.numel()

    def pushed(order: Tensor) -> Tensor:
        """The solution of a sigma that is a step, if it has this order."""
        return flat + lam * (2 * order + 1 - units) / units

    kinds, points = ["input", "sorted", "reversed"], [flat, pushed(ranks)]
    points.append(pushed(units - 1 - ranks))
    for number in range(count):
        noise = 2 * torch.rand(units, generator=generator, dtype=torch.float64) - 1
        kinds.append("random")
        if number % 2:
            points.append(flat + lam * noise)
        else:
            points.append(pushed((flat + 2 * lam * noise).argsort().argsort().double()))
    return kinds, torch.stack(points).reshape(-1, *y.shape)


def _settle(
    y: Tensor, lam: float, starts: Tensor, arguments: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Down the energy from every start at once."""
    target = y.expand_as(starts)
    found = ibnn.solve(target, lam, start=starts, on_failure="ignore", max_steps=200, **arguments)
    return found.value, solved(found.value, y, lam, arguments)


def solved(z: Tensor, y: Tensor, lam: float | Tensor, arguments: dict[str, Any]) -> Tensor:
    """Which rows of z are solutions."""
    left = ibnn.residual(z, y.expand_as(z), lam, **arguments).reshape(len(z), -1)
    scale = 1 + y.abs().max() + torch.as_tensor(lam).abs()
    return left.abs().amax(-1) <= SOLVED * scale


def _between(y: Tensor, lam: float, minima: Tensor, most: int, arguments: dict[str, Any]) -> Tensor:
    """Where the energy is highest between two minima, on a straight line; nearest pairs first."""
    flat = minima.reshape(len(minima), -1)
    first, second = torch.triu_indices(len(flat), len(flat), 1)
    nearest = (flat[first] - flat[second]).norm(dim=-1).argsort()[: max(1, most)]
    one, other = minima[first[nearest]], minima[second[nearest]]
    at = torch.linspace(0, 1, SEGMENT_POINTS, dtype=y.dtype)[1:-1].reshape(-1, *[1] * one.ndim)
    segments = one + at * (other - one)  # (points, pairs, *units)
    tops = ibnn.energy(segments, y.expand_as(segments), lam, **arguments).argmax(0)
    return segments[tops, torch.arange(len(one))]


def _newton(y: Tensor, lam: float, z: Tensor, arguments: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Newton's method that goes to any solution nearby, minimum or saddle."""
    target = y.expand_as(z)
    for _ in range(NEWTON_STEPS):
        if bool(solved(z, y, lam, arguments).all()):
            break
        residual = ibnn.residual(z, target, lam, **arguments)
        operator = BiasOperator(z, lam, **arguments)
        step = torch.linalg.solve_ex(operator.dense_jacobian(), operator.flatten(residual))[0]
        # a singular J asks for any length: no unit needs to go farther than the box is wide
        size = step.abs().amax(-1, keepdim=True).nan_to_num(torch.inf).clamp_min(1e-300)
        step = torch.where(size.isfinite(), step * (abs(lam) / size).clamp(max=1), 0)
        z = z - step.reshape(z.shape)
    return z, solved(z, y, lam, arguments)


def _distinct(values: Tensor, good: Tensor, separation: float) -> list[int]:
    """The first of each group of equal solutions."""
    flat = values.reshape(len(values), -1)
    kept: list[int] = []
    for number in good.nonzero().squeeze(-1).tolist():
        if kept and bool(((flat[kept] - flat[number]).abs().amax(-1) <= separation).any()):
            continue
        kept.append(number)
    return kept


def _describe(
    y: Tensor,
    lam: float,
    values: Tensor,
    kept: list[int],
    kinds: list[str],
    converged: int,
    arguments: dict[str, Any],
    generator: torch.Generator,
) -> Solutions:
    chosen = values[kept]
    energies = ibnn.energy(chosen, y.expand_as(chosen), lam, **arguments)
    smallest, _ = smallest_eigenvalue(BiasOperator(chosen, lam, **arguments), generator)
    order = energies.argsort(stable=True)
    return Solutions(
        chosen[order],
        energies[order],
        smallest[order],
        tuple(kinds[kept[i]] for i in order.tolist()),
        len(kinds),
        converged,
    )
