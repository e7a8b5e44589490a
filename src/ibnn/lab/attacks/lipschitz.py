"""How far a change of the input can reach, layer by layer: proven bounds, never estimates.

For a change of size 1 in l_inf, `radius` bounds the change of every unit by itself: |W| takes a
radius through an affine map, an elementwise 1-Lipschitz function keeps it. For a change of size 1
in l_2, `gain` bounds the l_2 norm of the change of all units: a product of operator norms.

The implicit bias z(y) has `dy = J dz` with J the mean of I - lam p L along the way, L a graph
Laplacian with eigenvalues in [0, mu]. Below, fraction = lam p mu = lam / T, T the threshold.
- lam <= 0: J is an M-matrix with unit row sums, so `J^-1` averages: 1-Lipschitz in every norm.
- 0 < lam < T: |J^-1| <= 1 / (1 - fraction) in l_2, and, degrees being at most mu, by diagonal
  dominance <= 1 / (1 - 2 fraction) in l_inf; the l_2 bound of a row bounds its largest unit too.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ibnn
from ibnn.lab.models.chain import NotAChainError, chain
from ibnn.nn.layer import ImplicitLayer
from ibnn.theory import lipschitz_constant

ELEMENTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Hardtanh, nn.Softplus, nn.Identity, nn.Dropout)
LINEAR = (nn.Linear, ibnn.Linear)
CONVOLUTIONS = {nn.Conv1d: F.conv1d, nn.Conv2d: F.conv2d, nn.Conv3d: F.conv3d}
CONVOLUTIONS |= {ibnn.Conv1d: F.conv1d, ibnn.Conv2d: F.conv2d, ibnn.Conv3d: F.conv3d}
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
SHAPES = (nn.Flatten, nn.ZeroPad2d)
# singular values come with a few roundings of float64, which a proven bound must cover
ROUNDING = 1 + 1e-9


class UnknownLayerError(ValueError):
    """No bound is known for a layer of the network."""


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The network as a chain of layers with a known bound each, first to last.

    Types are compared exactly: a subclass may compute something else.
    """
    try:
        layers = [link.module for link in chain(model)]
    except NotAChainError as error:
        raise UnknownLayerError(f"no bound is known for this network: {error}") from None
    known = (*ELEMENTWISE, *LINEAR, *CONVOLUTIONS, *NORMS, *SHAPES, ibnn.ImplicitBias)
    for layer in layers:
        if type(layer) not in known:
            raise UnknownLayerError(f"no bound is known for a layer of type {type(layer).__name__}")
    return layers


def is_affine(layer: nn.Module) -> bool:
    """Whether the layer is an affine map in `eval` mode."""
    if isinstance(layer, ImplicitLayer):
        return False
    return type(layer) in (*LINEAR, *CONVOLUTIONS, *NORMS, *SHAPES, nn.Identity, nn.Dropout)


def through(layer: nn.Module, radius: Tensor, gain: float) -> tuple[Tensor, float]:
    """radius (1, ...) and gain after the layer, from those before it."""
    kind = type(layer)
    if kind in LINEAR:
        assert isinstance(layer, nn.Linear)
        gain *= float(torch.linalg.matrix_norm(layer.weight, 2)) * ROUNDING
        radius = F.linear(radius, layer.weight.abs())
    elif kind in CONVOLUTIONS:
        assert isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        gain *= convolution_norm(layer, radius.shape[2:])
        radius = _convolve(layer, radius)
    elif kind in NORMS:
        assert isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
        scale = _scale(layer)
        gain *= float(scale.max())
        radius = radius * scale.reshape(-1, *[1] * (radius.ndim - 2))
    elif kind in SHAPES:
        radius = layer(radius)
    if isinstance(layer, ImplicitLayer):
        radius, gain = _through_bias(layer, radius, gain)
    return radius, gain


def convolution_norm(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, size: torch.Size) -> float:
    """An upper bound of the l_2 norm of the convolution of maps of this size.

    On the padded map, wrapped into a torus, the convolution is diagonal in frequency: its norm is
    the largest singular value of the (out x in) matrices of all frequencies. Without the wrap, with
    stride, and with zeros for padding, the true operator is a part of that one (fewer rows, fewer
    columns), so its norm is not larger.
    """
    _demand_zero_padding(layer)
    dims = layer.weight.ndim - 2
    span = [d * (k - 1) + 1 for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
    torus = [n + p for n, p in zip(size, _padded(layer, span), strict=True)]
    weight = layer.weight.detach().double()
    outputs, inputs = weight.shape[0] // layer.groups, weight.shape[1]
    spread = weight.new_zeros(*weight.shape[:2], *torus)
    taps = tuple(slice(0, s, d) for s, d in zip(span, layer.dilation, strict=True))
    spread[(slice(None), slice(None), *taps)] = weight
    frequencies = torch.fft.fftn(spread, dim=tuple(range(2, 2 + dims)))
    # groups do not mix: the norm of all is the largest of one
    matrices = frequencies.reshape(layer.groups, outputs, inputs, -1).permute(0, 3, 1, 2)
    return float(torch.linalg.matrix_norm(matrices, 2).max()) * ROUNDING


def _convolve(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, radius: Tensor) -> Tensor:
    _demand_zero_padding(layer)
    function = CONVOLUTIONS[type(layer)]
    weight = layer.weight.abs()
    return function(radius, weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)


def _padded(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, span: list[int]) -> list[int]:
    """Zeros added along each dim, both sides together."""
    if isinstance(layer.padding, str):
        return [s - 1 for s in span] if layer.padding == "same" else [0] * len(span)
    return [2 * p for p in layer.padding]


def _demand_zero_padding(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> None:
    if layer.padding_mode != "zeros":
        raise UnknownLayerError(f"no bound is known for padding_mode={layer.padding_mode!r}")


def _scale(layer: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) -> Tensor:
    if layer.running_var is None:
        raise UnknownLayerError("no bound is known for a batch norm without running statistics")
    scale = (layer.running_var + layer.eps).rsqrt()
    return scale if layer.weight is None else (scale * layer.weight).abs()


def _through_bias(layer: ImplicitLayer, radius: Tensor, gain: float) -> tuple[Tensor, float]:
    lam, slope = layer.effective_lam.detach(), layer.effective_slope.detach()
    if layer.solver.approximate:
        raise UnknownLayerError(f"no bound is known for the approximate solver {layer.solver}")
    if not layer.sigma.certified and bool((lam != 0).any()):
        raise UnknownLayerError(f"no bound is known for the uncertified sigma {layer.sigma}")
    lam, slope = torch.broadcast_tensors(lam, slope)
    constants = torch.tensor(
        [
            lipschitz_constant(one, p, layer.coupling, layer.sigma)
            for one, p in zip(lam.flatten().tolist(), slope.flatten().tolist(), strict=True)
        ],
        dtype=radius.dtype,
    )
    dims = layer.coupling.dims
    per_row = constants.reshape(*lam.shape, *[1] * len(dims)) if lam.ndim else constants[0]
    dominance = 2 / per_row - 1  # 1 - 2 fraction, as per_row is 1 / (1 - fraction)
    in_linf = torch.where(dominance > 0, 1 / dominance.clamp(min=0), math.inf)
    by_unit = in_linf * radius.amax(dims, keepdim=True)
    by_row = per_row * torch.linalg.vector_norm(radius, dim=dims, keepdim=True)
    return torch.minimum(by_unit, by_row).expand_as(radius), gain * float(constants.max())
