"""Path dependence: one row's solution followed in lam, and in its input, there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ibnn.lab.analysis.solutions_find import follow, solved

NOISE = 1e-6  # keeps a followed solution from resting on a saddle


@dataclass(frozen=True)
class Path:
    """Where along it, and z - y of every unit there: on the way, and on the way back."""

    at: Tensor
    there: Tensor  # (steps, units)
    back: Tensor  # (steps, units), the last step first

    @property
    def gap(self) -> float:
        """The largest difference the way makes."""
        return float(self._differences().max())

    @property
    def liveliest(self) -> int:
        """The unit for which the way matters most."""
        return int(self._differences().amax(0).argmax())

    def _differences(self) -> Tensor:
        return (self.there - self.back.flip(0)).abs()


@dataclass(frozen=True)
class Paths:
    """lam / T rises and falls for one input; the input moves to another and back at one lam."""

    over_lam: Path
    over_input: Path
    share: float  # lam / T of the second
    unsolved: int  # points at which the steps of the solver ran out
    points: int


def follow_paths(
    first: Tensor,
    last: Tensor,
    threshold: float,
    settings: dict[str, Any],
    *,
    highest: float,
    share: float,
    steps: int,
) -> Paths:
    """lam from 0 to `highest` T and back for the row `first`; at `share` T, from `first` to `last`
    and back."""
    shares = torch.linspace(0, highest, steps, dtype=torch.float64)
    at = torch.linspace(0, 1, steps, dtype=torch.float64)
    mixed = at.reshape(-1, *[1] * first.ndim)
    between = (1 - mixed) * first + mixed * last
    still = first.expand(between.shape)
    high = torch.full_like(shares, share)
    # falling, lam begins with the row in another order than its own
    start = torch.stack([first, 2 * first.mean() - first, first])
    lams = threshold * torch.stack([shares, shares.flip(0), high], 1)
    inputs = torch.stack([still, still, between], 1)
    tracks = follow(inputs, lams, start, NOISE, **settings)
    returning, constant = inputs[:, 2:].flip(0), lams[:, 2:]
    back = follow(returning, constant, tracks[-1, 2:], NOISE, **settings)
    reached = torch.cat(
        [
            solved(tracks.flatten(0, 1), inputs.flatten(0, 1), lams.flatten(), settings),
            solved(back.flatten(0, 1), returning.flatten(0, 1), constant.flatten(), settings),
        ]
    )
    # how far units are pushed shows what their own values, which move with the input, would hide
    up, down, there = (tracks - inputs).reshape(steps, 3, -1).unbind(1)
    back = (back - returning).reshape(steps, -1)
    unsolved = int((~reached).sum())
    return Paths(Path(shares, up, down), Path(at, there, back), share, unsolved, len(reached))
