"""Norms of the Jacobian of a network, image by image, and the paper's product bound on them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

import ibnn
from ibnn import theory
from ibnn.lab.models.chain import NotAChainError, chain
from ibnn.nn.layer import ImplicitLayer

Function = Callable[[Tensor], Tensor]  # a batch in, a batch out, each example on its own


@torch.no_grad()
def forward_product(function: Function, x: Tensor, dx: Tensor) -> Tensor:
    """J dx of each example."""
    _, _, forward = _products(function, x)
    return forward(dx)


@torch.no_grad()
def frobenius_norms(
    function: Function, x: Tensor, *, probes: int = 16, generator: torch.Generator
) -> Tensor:
    """|J|_F of each example: Hutchinson's E|J^T u|^2 over random signs u, or exactly, a product
    per output, where the outputs are no more than the probes."""
    outputs, back, _ = _products(function, x)
    size = outputs[0].numel()
    total = x.new_zeros(len(x))
    count = min(size, probes)
    for number in range(count):
        if size <= probes:
            u = torch.zeros(len(x), size)
            u[:, number] = 1
        else:
            u = torch.randint(0, 2, (len(x), size), generator=generator) * 2.0 - 1
        total += _norms(back(u.to(outputs).reshape(outputs.shape))).square()
    return (total if size <= probes else total / count).sqrt()


@dataclass(frozen=True)
class Spectral:
    """|J|_2 of each example, from below, and the direction in the input that reaches it."""

    norms: Tensor
    directions: Tensor
    change: float  # largest relative change of the last step


@torch.no_grad()
def spectral_norms(
    function: Function,
    x: Tensor,
    *,
    generator: torch.Generator,
    steps: int = 40,
    rtol: float = 1e-4,
) -> Spectral:
    """Power iteration on J^T J, every example at once, until none changes by more than `rtol`."""
    _, back, forward = _products(function, x)
    v = _unit(
        torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.dtype).to(x.device)
    )
    norms, change = x.new_zeros(len(x)), torch.inf
    for _ in range(steps):
        u = forward(v)
        before, norms = norms, _norms(u)
        change = float(((norms - before) / norms.clamp_min(1e-30)).abs().max())
        if change <= rtol:
            break
        v = _unit(back(u))
    return Spectral(norms, v, change)


def _products(function: Function, x: Tensor) -> tuple[Tensor, Function, Function]:
    """f(x), u -> J^T u and v -> J v.

    The product J^T u is linear in u, and its own derivative by u is J: two reverse passes, so that
    layers without a forward-mode rule can be in between.
    """
    made: Any = torch.func.vjp(function, x)
    outputs, back = made
    again: Any = torch.func.vjp(lambda u: back(u)[0], torch.zeros_like(outputs))
    return outputs, lambda u: back(u)[0], lambda v: again[1](v)[0]


def _norms(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1)


def _unit(x: Tensor) -> Tensor:
    size = _norms(x).clamp_min(1e-30).reshape(-1, *[1] * (x.ndim - 1))
    return x / size


# layers whose derivative has norm 1 at most: nothing to multiply
_NON_EXPANSIVE = (
    *(nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Hardtanh, nn.Softplus, nn.Identity, nn.Flatten),
    *(nn.Dropout, nn.Dropout2d, nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d),
)
_AFFINE = (nn.Linear, nn.modules.conv._ConvNd, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
_STEPS = 300  # of power iteration, which stops when it has settled to 1e-4


@dataclass(frozen=True)
class Factor:
    """One link of the chain: the norm of its derivative, and of the F behind it."""

    name: str
    norm: float
    lateral: float = 1.0  # Lipschitz constant of F; 1 for lam <= 0


@torch.no_grad()
def factors(network: nn.Module, x: Tensor, generator: torch.Generator) -> list[Factor]:
    """Every link whose norm may be other than 1, for inputs like those of the batch x.

    Raises NotAChainError where the network branches or no norm is known for one of its layers.
    """
    found, y = [], x[:1]
    for name, module in chain(network):
        if isinstance(module, _BatchNorm) and module.running_var is not None:
            scale = (module.running_var + module.eps).rsqrt()
            scale = scale if module.weight is None else scale * module.weight.detach().abs()
            found.append(Factor(name, float(scale.max())))
        elif isinstance(module, (ImplicitLayer, *_AFFINE)):
            affine = ibnn.standard(module) if isinstance(module, ImplicitLayer) else module
            at = torch.zeros_like(y)
            norm = spectral_norms(affine, at, generator=generator, steps=_STEPS).norms[0]
            found.append(Factor(name, float(norm), _lateral(module)))
        elif not isinstance(module, _NON_EXPANSIVE) and not _picks_without_overlap(module):
            raise NotAChainError(f"no norm is known for {name}, a {type(module).__name__}")
        y = module(y)
    return found


def product(links: Sequence[Factor], lateral: bool = True) -> float:
    """The bound on the norm of the network's Jacobian, anywhere."""
    return math.prod(link.norm * (link.lateral if lateral else 1.0) for link in links)


def _picks_without_overlap(module: nn.Module) -> bool:
    """Max pooling passes every input to one output at most: norm 1."""
    if not isinstance(module, (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)):
        return False
    kernel, stride = (torch.as_tensor(size) for size in (module.kernel_size, module.stride))
    return bool((stride >= kernel).all()) and module.dilation in (1, (1, 1), (1, 1, 1))


def _lateral(module: nn.Module) -> float:
    if not isinstance(module, ImplicitLayer):
        return 1.0
    pairs = torch.broadcast_tensors(module.effective_lam, module.effective_slope)
    return max(
        theory.lipschitz_constant(float(lam), float(slope), module.coupling, module.sigma)
        for lam, slope in zip(*(p.reshape(-1) for p in pairs), strict=True)
    )
