"""HopSkipJump (Chen et al. 2020): walks along the boundary, from answers alone."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.fab import bisect
from ibnn.lab.attacks.settings import check_settings
from ibnn.lab.training.ball import distance, normal, per_row, steepest, uniform

STARTS = 50  # noise images tried where no other image of the batch will do
HALVINGS = 15  # of a segment, to find the boundary on it
SHORTENINGS = 10  # of a step, to stay on the wrong side


@dataclass(frozen=True)
class HopSkipJump(Attack):
    """A decision-based attack: it sees the predicted label and nothing else.

    It starts at an image the model gives another label (the nearest one of the batch, else
    noise), goes back to the boundary, estimates the boundary's normal from the labels of random
    points around, steps along it and repeats. Minimal-norm: no radius.

    Args:
        steps: times the normal is estimated.
        samples: random points for the first estimate; the n-th takes sqrt(n) times as many.
    """

    steps: int = 15
    samples: int = 50

    kind: ClassVar[str] = "hopskipjump"

    def __post_init__(self) -> None:
        check_settings(self, "steps", "samples")

    def passes(self, classes: int) -> int:
        estimates = sum(round(self.samples * math.sqrt(n)) for n in range(1, self.steps + 1))
        return estimates + self.steps * (SHORTENINGS + HALVINGS) + HALVINGS

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        images, found, queries = _start(model, x, y, generator)
        rows = found.nonzero().squeeze(1)
        if not len(rows):
            return Attacked(images, found, distance(self.norm, images - x), queries)
        near, goal = x[rows], y[rows]
        best = self._to_boundary(model, near, goal, images[rows])
        spent = HALVINGS
        for step in range(1, self.steps + 1):
            samples = round(self.samples * math.sqrt(step))
            away = distance(self.norm, best - near)
            ascent = self._normal(model, near, goal, best, away, samples, generator)
            length, moved = away / math.sqrt(step), best
            waiting = torch.ones_like(length, dtype=torch.bool)
            for _ in range(SHORTENINGS):
                tried = (best + per_row(length, best) * ascent).clamp(0, 1)
                crossed = waiting & (model(tried).argmax(1) != goal)
                moved = torch.where(per_row(crossed, best), tried, moved)
                waiting, length = waiting & ~crossed, length / 2
            moved = self._to_boundary(model, near, goal, moved)
            closer = distance(self.norm, moved - near) < away
            best = torch.where(per_row(closer, best), moved, best)
            spent += samples + SHORTENINGS + HALVINGS
        images[rows] = best
        queries[rows] += spent
        return Attacked(images, found, distance(self.norm, images - x), queries)

    def _to_boundary(self, model: nn.Module, x: Tensor, y: Tensor, wrong: Tensor) -> Tensor:
        """The nearest wrong point between x and a wrong one, by halving the distance."""
        away = distance(self.norm, wrong - x)

        def between(fraction: Tensor) -> Tensor:
            if self.norm == "l2":
                return x + per_row(fraction, x) * (wrong - x)
            # In l_inf a point is nearer when its largest changes are cut, not when all shrink.
            radius = per_row(fraction * away, x)
            return wrong.clamp(x - radius, x + radius)

        return bisect(model, y, wrong, between, HALVINGS)

    def _normal(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        at: Tensor,
        away: Tensor,
        samples: int,
        generator: torch.Generator,
    ) -> Tensor:
        """Mean of random directions, those that lead to a wrong answer counted positive."""
        units = x[0].numel()
        # The paper's radii: as small as the distance allows while the labels still differ.
        radius = per_row(away / (units if self.norm == "l2" else math.sqrt(units)), x)
        sums, biased, wrongs = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(away)
        for _ in range(samples):
            tried = (at + radius * steepest("l2", normal(x, generator))).clamp_(0, 1)
            direction = (tried - at) / radius.clamp_min(1e-12)
            crossed = (model(tried).argmax(1) != y).to(x.dtype)
            wrongs += crossed
            sums += per_row(2 * crossed - 1, x) * direction
            biased += direction
        # Subtracting the mean answer lowers the variance; with one answer only there is none.
        mean = 2 * wrongs / samples - 1
        mixed = mean.abs() < 1
        estimate = sums - torch.where(per_row(mixed, x), per_row(mean, x) * biased, 0)
        return steepest(self.norm, estimate)


def _start(
    model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """A wrong image for each: the nearest one of the batch with another label, else noise."""
    flat = x.flatten(1)
    apart = torch.cdist(flat, flat)
    apart[y[:, None] == y] = torch.inf  # every image of the batch is one the model gets right
    nearest, other = apart.min(1)
    found = nearest < torch.inf
    images = torch.where(per_row(found, x), x[other], x)
    queries = torch.zeros_like(y)
    for _ in range(STARTS):
        tried = uniform(x, generator)
        rows = (~found).nonzero().squeeze(1)
        if not len(rows):
            break
        crossed = model(tried[rows]).argmax(1) != y[rows]
        queries[rows] += 1
        images[rows[crossed]] = tried[rows[crossed]]
        found[rows[crossed]] = True
    return images, found, queries
