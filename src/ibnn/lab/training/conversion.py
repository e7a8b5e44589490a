"""One trained network at other lam, nothing before its head trained: as it is, batch norms
recalibrated, or the head fitted anew."""

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from ibnn.conversion.recalibrate import recalibrate_batch_norms
from ibnn.lab.models import implicit_layers

# on squared weights of features scaled to unit variance; the best one on held-out images is taken
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0)
HELD_OUT = 5  # every fifth image
ITERATIONS = 30
BATCH = 500


@torch.no_grad()
def with_lam(network: nn.Module, lam: float) -> nn.Module:
    """A copy that differs in nothing but lam, the same in every implicit layer.

    >>> import ibnn
    >>> with_lam(ibnn.Linear(2, 3, lam=-0.1), 0.05).lam.item() == torch.tensor(0.05).item()
    True
    """
    made = copy.deepcopy(network)
    for layer in implicit_layers(made):
        layer.lam.fill_(lam)
    return made


def recalibrated(network: nn.Module, batches: Iterable[Tensor]) -> nn.Module | None:
    """A copy whose batch norms have the statistics of these batches; None where there is none."""
    if not any(isinstance(module, _BatchNorm) for module in network.modules()):
        return None
    made = copy.deepcopy(network)
    recalibrate_batch_norms(made, batches)
    return made


def head_of(network: nn.Module) -> nn.Linear:
    """The last fully connected layer of a network."""
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError(f"{type(network).__name__} has no nn.Linear, expected one as its head")
    return layers[-1]


def refit_head(network: nn.Module, x: Tensor, y: Tensor, penalty: float) -> nn.Module:
    """A copy of the network (in `eval` mode) whose head is the best one for these images.

    Minimized is cross-entropy + penalty / 2 * |w|^2, convex, by L-BFGS from zero. Features are
    scaled to unit variance first, so that the penalty means the same whatever a conversion did to
    their size; the scale is put into the weights afterwards.
    """
    fitted = copy.deepcopy(network).eval()
    scaled, mean, std = _scaled_features(fitted, x)
    head = head_of(fitted)
    weight, bias = _logistic_regression(scaled, y, head.out_features, penalty)
    with torch.no_grad():
        head.weight.copy_(weight / std)
        head.bias.copy_(bias - weight @ (mean / std))
    return fitted


def pick_penalty(network: nn.Module, x: Tensor, y: Tensor) -> float:
    """The penalty whose head is right most often on some of these images, held out for that; the
    largest of equals."""
    features, _, _ = _scaled_features(copy.deepcopy(network).eval(), x)
    classes = head_of(network).out_features
    held = torch.arange(len(y), device=y.device) % HELD_OUT == 0

    def right(penalty: float) -> int:
        head = _logistic_regression(features[~held], y[~held], classes, penalty)
        return int((F.linear(features[held], *head).argmax(1) == y[held]).sum())

    return max(reversed(PENALTIES), key=right)


def _scaled_features(network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the head sees, with mean 0 and variance 1; and the mean and deviation it had."""
    features = _features(network, x)
    mean, std = features.mean(0), features.std(0)
    std = std.clamp_min(0.01 * float(std.mean()) or 1.0)  # a unit that never fires stays unused
    return (features - mean) / std, mean, std


@torch.no_grad()
def _features(network: nn.Module, x: Tensor) -> Tensor:
    """What reaches the head."""
    seen: list[Tensor] = []
    handle = head_of(network).register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    try:
        for part in x.split(BATCH):
            network(part)
    finally:
        handle.remove()
    return torch.cat(seen)


def _logistic_regression(
    features: Tensor, y: Tensor, classes: int, penalty: float
) -> tuple[Tensor, Tensor]:
    weight = nn.Parameter(features.new_zeros(classes, features.shape[1]))
    bias = nn.Parameter(features.new_zeros(classes))
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe", tolerance_grad=1e-5
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(F.linear(features, weight, bias), y)
        loss = loss + penalty / 2 * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(objective)  # pyright: ignore[reportArgumentType]
    return weight.detach(), bias.detach()
