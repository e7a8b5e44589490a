"""Pixle (Pomponi et al. 2022): copies a few pixels of the image over others of it, black box."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.best import Best
from ibnn.lab.attacks.losses import cross_entropy
from ibnn.lab.attacks.settings import check_counts, check_one_of, check_pictures
from ibnn.lab.training.ball import Norm


@dataclass(frozen=True)
class Pixle(Attack):
    """Takes a patch of the original image and writes its pixels elsewhere.

    In each restart `iterations` patches are tried on the image as the restart found it; the one
    that lowers the true class's probability most is kept, if any does. A pixel is all channels of
    one position, so images of any number of channels are attacked alike.

    With the similarity mapping a pixel goes to the position whose value is nearest to its own
    without being equal (mean over channels of the absolute difference): the change is hard to
    see. torchattacks 3.5.1, which the published runs probably used, exchanges row and column when
    it writes, so its pixels land on the mirror image of that position; `mirrored` repeats that,
    for comparison (square images only).

    Args:
        patch: side of the patch, cut at the image's border.
        mapping: where pixels go: `"similarity"` or `"random"`.
    """

    restarts: int = 10
    iterations: int = 5
    patch: int = 3
    mapping: Literal["similarity", "random"] = "similarity"
    mirrored: bool = False
    norm: Norm = field(default="l0", init=False)

    def __post_init__(self) -> None:
        check_counts(self, "restarts", "iterations", "patch")
        check_one_of("mapping", self.mapping, ("similarity", "random"))

    @property
    def name(self) -> str:
        return "pixle"

    @property
    def budget(self) -> float:
        """Pixels that can change: one patch per restart."""
        return float(self.restarts * self.patch**2)

    def passes(self, classes: int) -> int:
        return 1 + self.restarts * self.iterations

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        check_pictures(self.name, x)
        if self.mirrored and x.shape[2] != x.shape[3]:
            raise ValueError(
                f"mirrored is True for images of {x.shape[2]} x {x.shape[3]}, expected square ones"
            )
        best = Best(x)
        # minus the true class's log-probability: what Pixle lowers, and never saturates at 1
        best.loss = cross_entropy(model(x), y)
        best.queries += 1
        for _ in range(self.restarts):
            base = best.images.clone()
            for _ in range(self.iterations):
                # Drawn for all images: what one image gets does not depend on the others' luck.
                source = self._source(x, generator)
                goal = self._goal(x, base, source, generator)
                rows = best.rows()
                if not len(rows):
                    return best.result(self.norm)
                images = _written(x[rows], base[rows], source[rows], goal[rows])
                best.ask(model, y, rows, images, cross_entropy)
        return best.result(self.norm)

    def _source(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The positions of each image's patch (as one number); -1 beyond the border."""
        count, _, height, width = x.shape
        top = torch.randint(height, (count, 1, 1), generator=generator)
        left = torch.randint(width, (count, 1, 1), generator=generator)
        span = torch.arange(self.patch)
        row, column = top + span[:, None], left + span
        inside = (row < height) & (column < width)
        return torch.where(inside, row * width + column, -1).flatten(1).to(x.device)

    def _goal(self, x: Tensor, base: Tensor, source: Tensor, generator: torch.Generator) -> Tensor:
        """The position each pixel of the patch is written to; never its own."""
        width = x.shape[3]
        pixels = x.shape[2] * width
        at = source.clamp_min(0)
        if self.mapping == "random":
            step = torch.randint(1, max(pixels, 2), source.shape, generator=generator)
            return (at + step.to(x.device)) % pixels
        values = _pixels(x, at)
        goals = torch.empty_like(source)
        for k in range(source.shape[1]):  # one pixel at a time: (images, pixels) and no more
            apart = (base.flatten(2) - values[:, :, k : k + 1]).abs().mean(1)
            # Equal pixels change nothing and its own position is excluded: both come last.
            apart = torch.where(apart == 0, torch.inf, apart).scatter(
                1, at[:, k : k + 1], torch.inf
            )
            goals[:, k] = apart.argmin(1)
        if self.mirrored:
            goals = goals % width * width + goals // width
        return goals


def _pixels(x: Tensor, at: Tensor) -> Tensor:
    """All channels of the images at the given positions: (images, channels, positions)."""
    return x.flatten(2).gather(2, at[:, None].expand(-1, x.shape[1], -1))


def _written(x: Tensor, base: Tensor, source: Tensor, goal: Tensor) -> Tensor:
    """`base` with the original image's source pixels at their goals, in the patch's order.

    Two pixels may share a goal; the later one wins, always, which a scatter does not promise.
    """
    values = _pixels(x, source.clamp_min(0))
    image = base.flatten(2).clone()
    rows = torch.arange(len(x), device=x.device)
    for k in range(source.shape[1]):
        at = goal[:, k]
        inside = (source[:, k] >= 0)[:, None]
        image[rows, :, at] = torch.where(inside, values[:, :, k], image[rows, :, at])
    return image.reshape(base.shape)
