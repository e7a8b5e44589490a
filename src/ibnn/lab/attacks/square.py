"""Square attack (Andriushchenko et al. 2020): random search over squares of pixels, black box."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attacked
from ibnn.lab.attacks.best import Best
from ibnn.lab.attacks.losses import margin
from ibnn.lab.attacks.noise import RandomSearch
from ibnn.lab.attacks.settings import check_pictures
from ibnn.lab.training.ball import distance, per_row, project, steepest

# The fraction of pixels in a square is halved after these many of 10,000 queries.
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)


@dataclass(frozen=True)
class Square(RandomSearch):
    """Asks for logits only; each query changes one square and is kept if the margin falls.

    Every image has its own squares (the authors' code shares one per batch), so that a batch is
    no more than its images.

    Args:
        queries: the most forward passes for one image.
        fraction: of the pixels in the first squares.
    """

    queries: int = 1000
    fraction: float = 0.8

    kind: ClassVar[str] = "square"

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        check_pictures(self.name, x)
        best = Best(x)
        for query in range(self.queries):
            rows = best.rows()
            if not len(rows):
                break
            here = x[rows]
            propose = _linf if self.norm == "linf" else _l2
            side = self._side(query, here) if query else None
            images = propose(here, best.images[rows], self.eps, side, generator)
            images = project(self.norm, here, images, self.eps)
            best.ask(model, y, rows, images, margin)
        return best.result(self.norm)

    def _side(self, query: int, x: Tensor) -> int:
        """Squares shrink as the search goes on, on the authors' schedule squeezed to our budget."""
        done = query / self.queries * 10_000
        fraction = self.fraction / 2 ** sum(done > after for after in HALVED_AFTER)
        height, width = x.shape[2:]
        return max(1, min(round(math.sqrt(fraction * height * width)), height, width))


def _linf(
    x: Tensor, images: Tensor, eps: float, side: int | None, generator: torch.Generator
) -> Tensor:
    """A square of +-eps, one sign per channel; first of all vertical stripes."""
    count, channels, _, width = x.shape
    if side is None:
        return x + eps * _signs((count, channels, 1, width), x, generator)
    rows, columns = _windows(x, side, generator)
    inside = _mask(x, rows, columns, side)
    return torch.where(inside, x + eps * _signs((count, channels, 1, 1), x, generator), images)


def _l2(
    x: Tensor, images: Tensor, eps: float, side: int | None, generator: torch.Generator
) -> Tensor:
    """The perturbation of one square moves to another, with a bump of two signs added there."""
    count, channels, height, width = x.shape
    if side is None:
        tile = max(1, height // 5)
        bump = _bump(tile, x).repeat(1, 1, height // tile + 1, width // tile + 1)
        signs = _signs((count, channels, height // tile + 1, width // tile + 1), x, generator)
        signs = signs.repeat_interleave(tile, 2).repeat_interleave(tile, 3)
        return x + eps * steepest("l2", (bump * signs)[..., :height, :width])
    side = min(side + 1 - side % 2 if side >= 3 else 3, height, width)
    delta = images - x
    room = (eps**2 - distance("l2", delta) ** 2).clamp_min(0)
    to, away = _windows(x, side, generator), _windows(x, side, generator)
    here, there = _mask(x, *to, side), _mask(x, *away, side)
    # What the two squares hold, per channel, and what the rest of the ball still allows.
    freed = (delta * (here | there)).square().sum((2, 3), keepdim=True)
    allowed = (freed + per_row(room, x) / channels).sqrt()
    turned = torch.rand(count, generator=generator) < 0.5
    bump = _bump(side, x)
    bump = torch.where(per_row(turned, x).to(x.device), bump.transpose(2, 3), bump)
    bump = bump * _signs((count, channels, 1, 1), x, generator)
    row = torch.arange(count, device=x.device)[:, None, None]
    span = torch.arange(side, device=x.device)
    place = (row, slice(None), to[0][:, None, None] + span[:, None], to[1][:, None, None] + span)
    old = delta[place].permute(0, 3, 1, 2)
    new = _unit(bump + _unit(old)) * allowed
    delta = delta * ~there
    delta[place] = new.permute(0, 2, 3, 1)
    # Cut at the box the point may lie inside the ball: use the whole radius.
    return x + eps * steepest("l2", delta)


def _bump(side: int, like: Tensor) -> Tensor:
    """Two halves of opposite sign, each falling off from its middle as 1 / distance^2; length 1."""

    def half(rows: int) -> Tensor:
        bump = torch.zeros(rows, side)
        top, left = rows // 2, side // 2
        for ring in range(max(top, left) + 1):
            above, before = max(top - ring, 0), max(left - ring, 0)
            bump[above : top + ring + 1, before : left + ring + 1] += 1 / (ring + 1) ** 2
        return bump

    both = torch.cat([half(side // 2), -half(side - side // 2)])
    return (both / both.norm()).to(like)[None, None]


def _unit(pattern: Tensor) -> Tensor:
    """Each channel's pattern at length 1 (0 stays 0)."""
    return pattern / pattern.square().sum((2, 3), keepdim=True).sqrt().clamp_min(1e-12)


def _signs(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    return (torch.randint(2, shape, generator=generator) * 2 - 1).to(like)


def _windows(x: Tensor, side: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The top left corner of one square per image."""
    count, _, height, width = x.shape
    rows = torch.randint(height - side + 1, (count,), generator=generator)
    columns = torch.randint(width - side + 1, (count,), generator=generator)
    return rows.to(x.device), columns.to(x.device)


def _mask(x: Tensor, rows: Tensor, columns: Tensor, side: int) -> Tensor:
    down = torch.arange(x.shape[2], device=x.device)[:, None] - per_row(rows, x)
    across = torch.arange(x.shape[3], device=x.device) - per_row(columns, x)
    return (down >= 0) & (down < side) & (across >= 0) & (across < side)
