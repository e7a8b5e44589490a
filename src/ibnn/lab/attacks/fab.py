"""FAB (Croce & Hein 2020): the smallest perturbation, by steps along the nearest boundary."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.losses import slope
from ibnn.lab.attacks.settings import check_settings
from ibnn.lab.training.ball import Norm, distance, per_row, random_point, steepest

ALPHA = 0.1  # the most weight the original image gets in a step
ETA = 1.05  # how far beyond the hyperplane
BETA = 0.9  # fraction of the perturbation kept after the boundary was crossed
HALVINGS = 10  # of the last segment, from the image to the best point found
# of Newton: one per group of coordinates that meet the box together; a handful in practice
NEWTON_STEPS = 50


@dataclass(frozen=True)
class FAB(Attack):
    """Fast adaptive boundary attack, untargeted: no radius, it looks for the smallest one.

    Each step linearizes every class's lead over the true one, takes the nearest of those
    hyperplanes, and goes to a mixture of the nearest points to it from the iterate and from the
    original image. Unlike FMN it has no step length to tune, and on a linear model its first step
    is exact; unlike DeepFool it keeps pulling back to the original. A bisection ends it.

    Args:
        restarts: the first starts at the image, others at a random point half as far from it as
            the best found.
    """

    steps: int = 20
    restarts: int = 1

    kind: ClassVar[str] = "fab"
    uses_gradients: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "steps", "restarts")

    def passes(self, classes: int) -> int:
        return self.restarts * self.steps * (2 + 2 * classes) + HALVINGS

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Attacked:
        best = x.clone()
        far = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)
        queries = torch.zeros_like(y)
        for restart in range(self.restarts):
            images = self._near(x, far, generator) if restart else x
            for _ in range(self.steps):
                images = self._step(model, x, y, images)
                wrong = model(images).argmax(1) != y
                queries += 2
                found = wrong & (distance(self.norm, images - x) < far)
                best = torch.where(per_row(found, x), images, best)
                far = torch.where(found, distance(self.norm, best - x), far)
                images = torch.where(per_row(wrong, x), x + BETA * (images - x), images)
        found = best
        best = bisect(model, y, found, lambda part: x + per_row(part, x) * (found - x), HALVINGS)
        queries += HALVINGS
        return Attacked(best, far < torch.inf, distance(self.norm, best - x), queries)

    def _near(self, x: Tensor, far: Tensor, generator: torch.Generator) -> Tensor:
        unit = random_point(self.norm, x, 1.0, generator) - x
        radius = torch.where(far < torch.inf, far, 0.1) / 2
        # random_point cut at the box, and a shorter move in the same direction stays inside it.
        return x + per_row(radius.clamp_max(1), x) * unit

    def _step(self, model: nn.Module, x: Tensor, y: Tensor, images: Tensor) -> Tensor:
        lead, normal = _nearest(model, images, y, "l1" if self.norm == "linf" else "l2")
        # The hyperplane, seen from each end: lead + <normal, d> = 0.
        here = to_hyperplane(self.norm, images, normal, -lead)
        shift = (normal * (x - images)).flatten(1).sum(1)
        home = to_hyperplane(self.norm, x, normal, -lead - shift)
        near, away = distance(self.norm, here), distance(self.norm, home)
        alpha = (near / (near + away).clamp_min(1e-12)).clamp_max(ALPHA)
        alpha = per_row(alpha, x)
        mixed = (1 - alpha) * (images + ETA * here) + alpha * (x + ETA * home)
        return mixed.clamp_(0, 1)


def _nearest(model: nn.Module, images: Tensor, y: Tensor, dual: str) -> tuple[Tensor, Tensor]:
    """The lead of the other class whose linearized boundary is nearest, and its gradient."""
    with torch.enable_grad():
        leaf = images.detach().requires_grad_()
        logits = model(leaf)
        leads = logits - logits.gather(1, y[:, None])
        totals = leads.sum(0)
        normals = torch.stack([slope(total, leaf, again=True) for total in totals], 1)
    leads = leads.detach()
    flat = normals.flatten(2)
    size = flat.abs().sum(2) if dual == "l1" else torch.linalg.vector_norm(flat, dim=2)
    away = (leads.abs() / size.clamp_min(1e-12)).scatter(1, y[:, None], torch.inf)
    rows, chosen = torch.arange(len(images), device=images.device), away.argmin(1)
    return leads[rows, chosen], normals[rows, chosen]


def bisect(
    model: nn.Module, y: Tensor, wrong: Tensor, between: Callable[[Tensor], Tensor], halvings: int
) -> Tensor:
    """The nearest wrong image on each way from an image (0) to a `wrong` one (1), by halving."""
    low = wrong.new_zeros(len(wrong))
    high, best = torch.ones_like(low), wrong
    for _ in range(halvings):
        middle = (low + high) / 2
        tried = between(middle)
        crossed = model(tried).argmax(1) != y
        best = torch.where(per_row(crossed, best), tried, best)
        high, low = torch.where(crossed, middle, high), torch.where(crossed, low, middle)
    return best


def to_hyperplane(norm: Norm, x: Tensor, normal: Tensor, gap: Tensor) -> Tensor:
    """The smallest d with `<normal, d> = gap` and `x + d` in [0, 1], per row.

    The answer is `d(t) = clamp(t * u, -x, 1 - x)`, u = sign(normal) in l_inf and normal in l_2,
    for the t at which `<normal, d(t)> = gap`: that is what the optimality conditions say. The
    left side is increasing, concave and piecewise linear in t >= 0, so Newton's method from t = 0
    climbs to the answer without overshooting and ends after as many steps as there are kinks on
    the way. Where the box does not reach the hyperplane: the corner nearest to it.

    (FAB's paper sorts the coordinates instead; this is shorter and has no index arithmetic.)
    """
    # A negative gap is the mirror image: normal and gap change sign together.
    sign = torch.where(gap < 0, -1.0, 1.0).to(x.dtype)
    normal, gap = (normal * per_row(sign, x)).flatten(1), gap * sign
    # Unit length, so that t is a length too.
    least = torch.finfo(x.dtype).tiny
    scale = distance("l2", normal).clamp_min(least)
    normal, gap = steepest("l2", normal), gap / scale
    direction = normal.sign() if norm == "linf" else normal
    low, high = -x.flatten(1), 1 - x.flatten(1)
    t = torch.zeros_like(gap)
    move = torch.zeros_like(normal)
    small = 4 * torch.finfo(x.dtype).eps
    for _ in range(NEWTON_STEPS):
        missing = gap - (normal * move).sum(1)
        # Coordinates that still move as t grows.
        free = torch.where(normal > 0, move < high, move > low)
        speed = (normal * direction * free).sum(1)
        going = (missing > small * gap) & (speed > 0)
        if not going.any():
            break
        t = torch.where(going, t + missing / speed.clamp_min(least), t)
        move = (t[:, None] * direction).clamp(low, high)
    return move.reshape(x.shape)
