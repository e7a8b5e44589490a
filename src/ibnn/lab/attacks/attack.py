"""The contract of every attack: a model, images and labels in, one verdict per image out."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.frozen import frozen
from ibnn.lab.training.ball import Norm, distance


@dataclass(frozen=True)
class Attacked:
    """What became of each image.

    images: like x, inside [0, 1] and the ball (to rounding); the best try where nothing succeeded.
    success: the model's own forward of `images` is wrong; images it gets wrong without any
        attack count, at distance 0.
    distance: of `images` from x in the attack's norm; inf where a minimal-norm attack found
        nothing.
    queries: forward passes the attack spent on each image (int64), without the two that judge the
        clean and the final image.
    """

    images: Tensor
    success: Tensor
    distance: Tensor
    queries: Tensor


@dataclass(frozen=True)
class Attack(ABC):
    """An attack with its settings; call it on a model, images in [0, 1] and labels.

    The model takes images (normalization is its own business) and gives one logit per class.
    Subclasses say how a batch of correctly classified images is attacked, in `_attack`; what is
    common to all happens here. Each batch gets random numbers of its own, drawn from a seed that
    depends on the generator and the batch's place only: more steps or restarts do not shift the
    randomness of later batches.
    """

    norm: Norm = field(default="linf", kw_only=True)

    kind: ClassVar[str] = ""
    uses_gradients: ClassVar[bool] = False
    needs_implicit: ClassVar[bool] = False

    def applies(self, implicit: bool) -> bool:
        """Whether it says anything about a model with, or without, implicit layers."""
        return implicit or not self.needs_implicit

    @property
    def name(self) -> str:
        """The attack in a table: "fab-linf"."""
        return f"{self.kind or type(self).__name__.lower()}-{self.norm}"

    @property
    def budget(self) -> float:
        """The largest distance the attack may go: its eps; inf for a minimal-norm attack."""
        return getattr(self, "eps", math.inf)

    def passes(self, classes: int) -> int:
        """At most so many passes of each image through the model, a gradient counted as two.

        Only for the time told beforehand: an attack from outside may leave it at 0, not known.
        """
        return 0

    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
        batch_size: int = 250,
    ) -> Attacked:
        """Attack every image the model gets right.

        Args:
            generator: the source of all randomness (seed 0 when absent).
            batch_size: images at a time; changes random numbers and rounding, nothing else.
        """
        _check(model, x, y, batch_size)
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        batches = range(0, len(x), batch_size)
        seeds = torch.randint(
            2**31, (len(batches),), generator=generator, device=generator.device
        ).tolist()
        done = []
        with frozen(model):
            # Copies: tensors made in inference mode cannot take part in a gradient.
            x, y = x.detach().clone(), y.detach().long()
            for seed, start in zip(seeds, batches, strict=True):
                part = slice(start, start + batch_size)
                source = torch.Generator().manual_seed(seed)
                done.append(self._judged(model, x[part], y[part], source))
            if not done:
                return _outcome(self.norm, x, x, y != y, y.clone())
        names = ("images", "success", "distance", "queries")
        return Attacked(*(torch.cat([getattr(part, name) for part in done]) for name in names))

    @abstractmethod
    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        """Attack a batch of images the model gets right; gradients are off, see `losses`."""

    def _judged(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        """One batch: attack what is right, then ask the model about every image returned."""
        wrong = _wrong(model, x, y)
        images, queries = x.clone(), torch.zeros_like(y)
        right = (~wrong).nonzero().squeeze(1)
        if len(right) and self.budget > 0:
            tried = self._attack(model, x[right], y[right], generator)
            images[right], queries[right] = tried.images, tried.queries
            wrong = wrong | _wrong(model, images, y)
        result = _outcome(self.norm, x, images, wrong, queries)
        if self.budget == math.inf:
            result.distance[~wrong] = math.inf
        return result


def _outcome(norm: Norm, x: Tensor, images: Tensor, success: Tensor, queries: Tensor) -> Attacked:
    return Attacked(images, success, distance(norm, images - x).to(x.dtype), queries)


def _wrong(model: nn.Module, images: Tensor, y: Tensor) -> Tensor:
    logits = model(images)
    if logits.dim() != 2 or logits.shape[0] != len(images) or logits.shape[1] < 2:
        raise ValueError(
            f"model gives logits of shape {tuple(logits.shape)} for {len(images)} images, "
            "expected (images, classes) with at least two classes"
        )
    if int(y.max()) >= logits.shape[1]:
        raise ValueError(
            f"y has a label {int(y.max())}, expected 0 to {logits.shape[1] - 1}: "
            f"model gives {logits.shape[1]} classes"
        )
    return logits.argmax(1) != y


def _check(model: nn.Module, x: Tensor, y: Tensor, batch_size: int) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, expected a torch.nn.Module")
    if not x.is_floating_point() or x.dim() < 2:
        raise ValueError(
            f"x is {x.dtype} of shape {tuple(x.shape)}, expected images of a floating type, "
            "first dimension one per image"
        )
    dtypes = {p.dtype for p in model.parameters() if p.is_floating_point()}
    if dtypes and x.dtype not in dtypes:
        raise ValueError(f"x is {x.dtype}, expected the type of the model: {dtypes.pop()}")
    if y.is_floating_point() or y.shape != x.shape[:1]:
        raise ValueError(
            f"y is {y.dtype} of shape {tuple(y.shape)}, expected {len(x)} integer labels"
        )
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, expected at least 1")
    if len(x) == 0:
        return
    low, high = float(x.min()), float(x.max())
    if not (low >= 0 and high <= 1):
        raise ValueError(f"x has values from {low:g} to {high:g}, expected 0 to 1")
    if int(y.min()) < 0:
        raise ValueError(f"y has a label {int(y.min())}, expected 0 or more")
