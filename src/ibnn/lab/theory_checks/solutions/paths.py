"""Path dependence: one row's solution followed in lam, and in its input, there and back."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ibnn.lab.theory_checks.solutions.search import follow, solved

NOISE = 1e-6  # keeps a followed solution from resting on a saddle
SAME = 1e-4  # solutions nearer than this are one: a hundred times the noise


@dataclass(frozen=True)
class Path:
    """Where along it, and z - y of every unit there: on the way out, and on the way back."""

    at: Tensor
    out: Tensor  # (steps, units)
    back: Tensor  # (steps, units), the last step first

    @property
    def gap(self) -> float:
        """The largest difference between the two."""
        return float(self._differences().max())

    @property
    def apart(self) -> Tensor:
        """At which points of the path some unit differs."""
        return self._differences().amax(1) > SAME

    @property
    def most_dependent(self) -> int:
        """The unit that differs most, over the whole path."""
        return int(self._differences().mean(0).argmax())

    def _differences(self) -> Tensor:
        return (self.out - self.back.flip(0)).abs()


@dataclass(frozen=True)
class Paths:
    """lam / T rises and falls for one input; the input moves to another and back at one lam."""

    over_lam: Path
    over_input: Path
    moved_at: float  # lam / T of the second
    unsolved: int  # points at which the steps of the solver ran out
    points: int


def follow_paths(
    first: Tensor,
    last: Tensor,
    threshold: float,
    arguments: dict[str, Any],
    *,
    highest: float,
    moved_at: float,
    steps: int,
) -> Paths:
    """lam from 0 to `highest` T and back for the row `first`; at `moved_at` T, from `first` to
    `last` and back."""
    ratios = torch.linspace(0, highest, steps, dtype=torch.float64)
    at = torch.linspace(0, 1, steps, dtype=torch.float64)
    mixed = at.reshape(-1, *[1] * first.ndim)
    between = (1 - mixed) * first + mixed * last
    still = first.expand(between.shape)
    high = torch.full_like(ratios, moved_at)
    # falling, lam begins with the row in another order than its own
    start = torch.stack([first, 2 * first.mean() - first, first])
    lams = threshold * torch.stack([ratios, ratios.flip(0), high], 1)
    inputs = torch.stack([still, still, between], 1)
    tracks = follow(inputs, lams, start, NOISE, **arguments)
    returning, constant = inputs[:, 2:].flip(0), lams[:, 2:]
    back = follow(returning, constant, tracks[-1, 2:], NOISE, **arguments)
    reached = torch.cat(
        [
            solved(tracks.flatten(0, 1), inputs.flatten(0, 1), lams.flatten(), arguments),
            solved(back.flatten(0, 1), returning.flatten(0, 1), constant.flatten(), arguments),
        ]
    )
    # z - y: the units' own values move with the input and would hide the difference
    rising, falling, out = (tracks - inputs).reshape(steps, 3, -1).unbind(1)
    back = (back - returning).reshape(steps, -1)
    unsolved = int((~reached).sum())
    return Paths(
        Path(ratios, rising, falling), Path(at, out, back), moved_at, unsolved, len(reached)
    )
