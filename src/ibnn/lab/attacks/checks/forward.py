"""Checks of the forward pass on adversarial images: it is solved, and its predictions repeat."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.attacks.checks.check import Check, Target
from ibnn.lab.attacks.checks.strength import within
from ibnn.lab.attacks.pgd import PGD
from ibnn.lab.models import implicit_layers
from ibnn.lab.training.ball import distance

# what a layer promises for z, relative to max(1, |y|): see the design
ACCURACY = {torch.float64: 1e-10}
USUAL_ACCURACY = 1e-5
OTHER_BATCH = 37


def solved(target: Target) -> Check:
    """The equation of every implicit layer, evaluated anew in float64 on adversarial images."""
    name = "equations are solved on adversarial images"
    if not target.implicit:
        return Check(name, None, "the model has no implicit layer")
    images = target.attacked(PGD(target.eps, norm=target.norm)).images
    model = copy.deepcopy(target.model)
    seen: list[tuple[float, float]] = []
    for layer in implicit_layers(model):
        _listen(layer, seen)
    with torch.no_grad():
        for part in images.split(target.batch_size):
            model(part)
    if not seen:
        return Check(name, None, "the forward pass of the model meets no implicit layer")
    worst, allowed = max(seen, key=lambda pair: pair[0] / pair[1])
    own = [layer.last_solve for layer in implicit_layers(model)]
    converged = min((solve.converged for solve in own if solve is not None), default=1.0)
    return Check(
        name,
        worst <= allowed,
        f"worst residual {worst:.1e} (allowed {allowed:.1e}) on {len(images)} images",
        {"residual": worst, "allowed": allowed, "converged": converged, "images": len(images)},
    )


def _listen(layer: Any, seen: list[tuple[float, float]]) -> None:
    """Note residual and allowance of every solve of this layer."""
    solve = layer.add_implicit_bias

    def noted(y: Tensor) -> Tensor:
        z = solve(y)
        lam, slope = layer.effective_lam.detach().double(), layer.effective_slope.detach().double()
        coupling = copy.deepcopy(layer.coupling).double()
        about = {"coupling": coupling, "sigma": layer.sigma}
        residual = ibnn.residual(z.double(), y.double(), lam, slope, **about).abs().max()
        # r(z) = z - y + lam B(z) is Lipschitz with 1 + 2 |lam| slope mu in the largest unit
        steep = 1 + 2 * float((lam.abs() * slope).max()) * float(coupling.largest_eigenvalue())
        size = max(1.0, float(y.abs().max()))
        allowed = ACCURACY.get(y.dtype, USUAL_ACCURACY) * size * steep
        seen.append((float(residual.nan_to_num(torch.inf)), allowed))
        return z

    layer.add_implicit_bias = noted


def verified(target: Target) -> Check:
    """Every adversarial image once more: a fresh forward pass at tight tolerance, in another
    order and batch size; inside [0, 1] and its ball."""
    name = "adversarial images hold in a fresh forward pass"
    results = [*target.results] or [_own(target)]
    try:
        exact, same = target.exact(), target.variant().double()
        count = changed = outside = 0
        for attack, result in results:
            x, y = target.x[: len(result.images)], target.y[: len(result.images)]
            fresh, doubt = _fresh(target, exact, same, result.images)
            margin = _margin(fresh, y)
            # on the boundary itself the last digit decides
            changed += int((((margin <= 0) != result.success) & (margin.abs() > doubt)).sum())
            far = distance(attack.norm, result.images.double() - x.double())
            left = ~within(far, attack.budget) if attack.norm in ("linf", "l2") else far < 0
            left |= (result.images.flatten(1) < 0).any(1) | (result.images.flatten(1) > 1).any(1)
            outside += int(left.sum())
            count += len(x)
    except RuntimeError as error:
        return Check(name, None, f"the model does not run in float64: {error}")
    return Check(
        name,
        not changed and not outside,
        f"of {count} images of {len(results)} attacks {changed} are classified differently "
        f"and {outside} are outside their ball or [0, 1]",
        {"images": count, "changed": changed, "outside": outside},
    )


@torch.no_grad()
def _fresh(
    target: Target, exact: nn.Module, same: nn.Module, images: Tensor
) -> tuple[Tensor, Tensor]:
    """Logits by the exact model, last image first, and how far rounding alone moves a margin:
    ten times the median difference of the model from itself in float64, same batches."""
    double = images.double()
    backwards = torch.cat([exact(part) for part in double.flip(0).split(OTHER_BATCH)])
    pairs = [
        (target.model(part).double() - same(part.double())).abs().amax(1)
        for part in images.split(target.batch_size)
    ]
    return backwards.flip(0), 10 * torch.cat(pairs).median()


def _margin(logits: Tensor, y: Tensor) -> Tensor:
    others = logits.scatter(1, y[:, None], -torch.inf).amax(1)
    return logits.gather(1, y[:, None]).squeeze(1) - others


def _own(target: Target):
    attack = PGD(target.eps, norm=target.norm)
    return attack, target.attacked(attack)
