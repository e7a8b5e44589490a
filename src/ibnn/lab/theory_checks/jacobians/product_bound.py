"""The paper's product bound for networks that are a chain: norm by norm, layer by layer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

import ibnn
from ibnn import theory
from ibnn.lab.models.chain import NotAChainError, chain
from ibnn.lab.theory_checks.jacobians.norms import spectral_norms
from ibnn.nn.layer import ImplicitLayer

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
    """Max pooling hands every input to one output at most: norm 1."""
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
