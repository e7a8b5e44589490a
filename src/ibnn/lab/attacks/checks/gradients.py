"""Checks of the input gradient: it is there, and it is the derivative of the forward pass."""

import copy
import math

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.checks.check import Check, Target
from ibnn.lab.attacks.losses import LOSSES, Loss
from ibnn.lab.stats import percent
from ibnn.lab.stats.proportion import FALSE_ALARM, tail

BLIND = 0.01  # fraction of images whose gradient may vanish
IMAGES, DIRECTIONS = 8, 3
STEP = 1e-5  # of the difference: the error of a float64 solve, 1e-12, becomes 1e-7
AGREE = 1e-3  # of the gradient's length
KINKS = 0.1  # fraction of differences that may straddle the kink of a ReLU


def present(target: Target) -> Check:
    """Fraction of images whose gradient is zero, or not a number."""
    numbers: dict[str, float] = {"images": len(target.few_x)}
    passed, told = True, []
    for name in ("ce", "margin"):
        parts = [
            _gradient(target.model, x, y, LOSSES[name]).flatten(1)
            for x, y in zip(
                target.few_x.split(target.batch_size),
                target.few_y.split(target.batch_size),
                strict=True,
            )
        ]
        gradient = torch.cat(parts)
        bad = int((~gradient.isfinite()).any(1).sum())
        zero = int((gradient == 0).all(1).sum())
        numbers |= {f"{name} not finite": bad, f"{name} zero": zero}
        numbers[f"{name} zero entries"] = float((gradient == 0).double().mean())
        passed &= not bad and tail(zero, len(gradient), BLIND) >= FALSE_ALARM
        told.append(f"{name}: {zero} zero and {bad} not finite")
    sentence = f"of {len(target.few_x)} gradients, {'; '.join(told)} "
    return Check(
        "gradients are there", passed, sentence + f"(zero: {percent(BLIND)} at most)", numbers
    )


def finite_differences(target: Target) -> Check:
    """Input gradient of a margin against central differences, in a float64 copy."""
    name = "gradient agrees with finite differences"
    try:
        model = copy.deepcopy(target.model).double()
        x, y = target.few_x[:IMAGES].double(), target.few_y[:IMAGES]
        with torch.no_grad():
            rivals = model(x).scatter(1, y[:, None], -torch.inf).argmax(1)
    except RuntimeError as error:
        return Check(name, None, f"the model does not run in float64: {error}")

    def gap(logits: Tensor, y: Tensor) -> Tensor:
        """To one fixed rival: smooth where the best rival changes."""
        return (logits.gather(1, rivals[:, None]) - logits.gather(1, y[:, None])).squeeze(1)

    gradient = _gradient(model, x, y, gap)
    length = _norm(gradient)
    generator = torch.Generator().manual_seed(target.seed)
    errors = []
    for _ in range(DIRECTIONS):
        random = torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
        # half along the gradient: a random direction alone is nearly orthogonal to it
        direction = random / _norm(random) + gradient / length.clamp(min=1e-300)
        direction = direction / _norm(direction)
        with torch.no_grad():
            there, back = (gap(model(x + step * direction), y) for step in (STEP, -STEP))
        measured = (there - back) / (2 * STEP)
        claimed = (gradient * direction).flatten(1).sum(1)
        scale = torch.maximum(length.flatten(), measured.abs()).clamp(min=1e-12)
        errors.append((measured - claimed).abs() / scale)
    error = torch.cat(errors).nan_to_num(torch.inf)
    middle, worst = float(error.median()), float(error.max())
    disagree = float((error > AGREE).double().mean())
    return Check(
        name,
        disagree <= KINKS,
        f"relative difference {middle:.1e} in the median and {worst:.1e} at worst over "
        f"{len(error)} directions ({percent(disagree)} above {AGREE:g})",
        {
            "pairs": len(error),
            "median": _number(middle),
            "worst": _number(worst),
            "disagree": disagree,
        },
    )


def _gradient(model: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> Tensor:
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        value = loss(model(leaf), y).sum()
        if not value.requires_grad:  # a forward pass that autograd cannot see
            return torch.zeros_like(x)
        (gradient,) = torch.autograd.grad(value, leaf, allow_unused=True)
    return torch.zeros_like(x) if gradient is None else gradient


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=tuple(range(1, x.ndim)), keepdim=True)


def _number(value: float) -> float | None:
    """For JSON, which has no infinity."""
    return value if math.isfinite(value) else None
