"""The paper's product bound for networks that are a chain: norm by norm, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ibnn import theory
from ibnn.lab.analysis.jacobian_norms import spectral_norms
from ibnn.lab.models import UCN, Perceptron
from ibnn.nn.layer import BiasMixin


@dataclass(frozen=True)
class Factor:
    """One link of the chain: the norm of its derivative, and of the F behind it."""

    name: str
    norm: float
    lateral: float = 1.0  # Lipschitz constant of F; 1 for lam <= 0


def is_chain(network: nn.Module) -> bool:
    """Whether the network is one thing after the other, so that norms multiply."""
    return isinstance(network, (UCN, Perceptron)) or (
        isinstance(network, nn.Sequential) and not any(len(list(m.children())) for m in network)
    )


def factors(network: nn.Module, x: Tensor, generator: torch.Generator) -> list[Factor]:
    """Every link with a norm other than 1 (ReLU, padding and flattening have norm 1 at most)."""
    shapes: dict[str, torch.Size] = {}
    modules = dict(network.named_modules())
    handles = [
        module.register_forward_hook(
            lambda _, given, __, name=name: shapes.__setitem__(name, given[0].shape[1:])
        )
        for name, module in modules.items()
    ]
    try:
        with torch.no_grad():
            network(x[:1])
    finally:
        for handle in handles:
            handle.remove()
    found = []
    for name, module in modules.items():
        if isinstance(module, _BatchNorm) and module.running_var is not None:
            scale = (module.running_var + module.eps).rsqrt()
            scale = scale if module.weight is None else scale * module.weight.detach().abs()
            found.append(Factor(name, float(scale.max())))
        elif isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)) and name in shapes:
            norm = _affine_norm(module, shapes[name], x.dtype, generator)
            found.append(Factor(name, norm, _lateral(module)))
    return found


def product(chain: list[Factor], lateral: bool = True) -> float:
    """The bound on the norm of the network's Jacobian, anywhere."""
    bound = 1.0
    for factor in chain:
        bound *= factor.norm * (factor.lateral if lateral else 1.0)
    return bound


def _affine_norm(
    module: nn.Module, shape: torch.Size, dtype: torch.dtype, generator: torch.Generator
) -> float:
    import ibnn

    affine = ibnn.standard(module) if isinstance(module, BiasMixin) else module
    at = torch.zeros(1, *shape, dtype=dtype)
    return float(spectral_norms(affine, at, generator=generator, steps=300).norms[0])


def _lateral(module: nn.Module) -> float:
    if not isinstance(module, BiasMixin):
        return 1.0
    pairs = torch.broadcast_tensors(module.effective_lam, module.effective_slope)
    return max(
        theory.lipschitz_constant(float(lam), float(slope), module.coupling, module.sigma)
        for lam, slope in zip(*(p.reshape(-1) for p in pairs), strict=True)
    )
