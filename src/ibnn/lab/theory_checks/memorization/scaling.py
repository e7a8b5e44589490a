"""The paper's scaling of curvature with lam p, on networks of its own kind: ideal, and trained."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import ibnn
from ibnn.lab.theory_checks.memorization.curvature import curvature, gradient_norms
from ibnn.lab.theory_checks.one_hidden import OneHidden, squared_error
from ibnn.lab.training.seeds import generator

LAM_SLOPES = (-2.0, -1.0, -0.5, -0.2, 0.2, 0.5, 0.8)  # lam p
DIRECTIONS = 4  # per example; medians over a hundred examples or more are taken


def paper_scaling(lam_slope: float) -> float:
    """The paper's Curv_IBNN / Curv_SM = (1 + lam p)^2, first order of 1 / (1 - lam p)^2."""
    return (1 + lam_slope) ** 2


def resolvent_scaling(lam_slope: float) -> float:
    """1 / (1 - lam p)^2: the paper's with F solved instead of expanded."""
    return 1 / (1 - lam_slope) ** 2


def linear_scaling(lam_slope: float) -> float:
    """1 / (1 - lam p)^4: what the paper's assumptions lead to.

    There s = k s_standard with k = 1 / (1 - lam p), and the Hessian of l(s(x)) is
    l''(s) grad s grad s^T: two gradients of s, hence k^2 in H and k^4 in |H|^2. (The paper scales
    the gradient of L at both ends of its difference by k, as if l' were the same for both
    networks, and loses the second k.)
    """
    return 1 / (1 - lam_slope) ** 4


SCALINGS: dict[str, Callable[[float], float]] = {
    "(1 + λp)²": paper_scaling,
    "1/(1 - λp)²": resolvent_scaling,
    "1/(1 - λp)⁴": linear_scaling,
}


@dataclass(frozen=True)
class CurvatureRatio:
    """Implicit over standard at one lam, same weights: medians over examples."""

    network: str  # "ideal" or "trained"
    lam_slope: float
    curvature: float
    gradient: float


def ideal_network(inputs: int, slope: float, seed: int, pairs: int = 16) -> OneHidden:
    """A network for which every assumption holds, stated or not.

    Filters come in pairs m, -m (their mean is zero) and see few inputs each; pre-activations lie
    within 1/p of each other, far on the positive side of ReLU; scores are so small that both
    networks answer 1/2.
    """
    network = OneHidden(inputs, 2 * pairs, lam=0.0, slope=slope, sigma="hardtanh").double()
    draw = generator(seed, "ideal network")
    half = torch.randn(pairs, inputs, generator=draw, dtype=torch.float64)
    half = half * (torch.rand(half.shape, generator=draw) < max(0.1, 2 / inputs))
    half = half / half.abs().sum(1, keepdim=True).clamp_min(1e-9) * (0.04 / slope)
    with torch.no_grad():
        network.hidden.weight.copy_(torch.cat([half, -half]))
        network.hidden.bias.fill_(1.0)
        head = torch.randn(2 * pairs, generator=draw, dtype=torch.float64)
        network.head.weight.copy_(head.unsqueeze(0))
        network.head.bias.copy_(-head.sum())
    return network


def curvature_ratios(
    name: str, network: OneHidden, x: Tensor, y: Tensor, lam_slopes: Sequence[float], seed: int
) -> list[CurvatureRatio]:
    """Curvature and gradient of the network at each lam p over those without implicit bias."""
    # in float64: where a network is sure of itself, curvatures are far below float32
    network, x, y = copy.deepcopy(network).double(), x.double(), y.double()

    def measured(one: torch.nn.Module) -> tuple[Tensor, Tensor]:
        def loss(x: Tensor, y: Tensor) -> Tensor:
            return squared_error(one(x), y)

        draw = generator(seed, "signs")  # the same directions every time
        return curvature(loss, x, y, draw, directions=DIRECTIONS), gradient_norms(loss, x, y)

    standard = measured(ibnn.standard(network))
    found = []
    for lam_slope in lam_slopes:
        hidden = network.hidden
        assert isinstance(hidden, ibnn.Linear)
        hidden.lam.fill_(lam_slope / float(hidden.slope))
        pairs = zip(measured(network), standard, strict=True)
        ratios = [float((a / b.clamp_min(1e-300)).median()) for a, b in pairs]
        found.append(CurvatureRatio(name, lam_slope, *ratios))
    return found
