"""What goes into and comes out of the implicit layers of a network, and what reaches its ReLUs."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import ibnn
from ibnn.coupling import Coupling
from ibnn.lab.theory_checks.check import DoesNotApply
from ibnn.lab.theory_checks.numerics.operator import BiasOperator, CoupledRows
from ibnn.nn.layer import ImplicitLayer
from ibnn.sigma import Sigma

DEFAULT_LAM = -0.2  # for checks that train networks of their own, where the network's lam is zero


@dataclass(frozen=True)
class LayerState:
    """One implicit layer on a batch: its input x, y = A(x) and z = F(y)."""

    name: str
    affine: nn.Module  # A: the same layer without its implicit bias
    x: Tensor
    y: Tensor
    z: Tensor
    lam: Tensor
    slope: Tensor
    coupling: Coupling
    sigma: Sigma

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `ibnn.implicit_bias`, but for lam."""
        return {"slope": self.slope, "coupling": self.coupling, "sigma": self.sigma}

    def operator(self) -> BiasOperator:
        """J and K_inf at z."""
        return BiasOperator(self.z, self.lam, **self.arguments)

    def solve(self, lam: float) -> Tensor:
        """z at another lam."""
        return ibnn.implicit_bias(self.y, lam, **self.arguments)

    def rows(self, y: Tensor) -> Tensor:
        """A tensor like y as the matrix (rows, units) the coupling makes of it."""
        return CoupledRows(self.y.shape, self.coupling).flatten(y)

    @property
    def units(self) -> int:
        """D, the number of coupled units."""
        return self.rows(self.y).shape[1]

    @property
    def lam_and_slope(self) -> list[tuple[float, float]]:
        """Once per channel, or once."""
        pairs = torch.broadcast_tensors(self.lam, self.slope)
        return [(float(a), float(b)) for a, b in zip(*(p.reshape(-1) for p in pairs), strict=True)]

    @property
    def threshold(self) -> float:
        """The lowest threshold of uniqueness of its channels."""
        if not self.sigma.certified:
            raise DoesNotApply(
                f"sigma {self.sigma.name} of layer {self.name} is not certified: the theory is for "
                "odd, non-decreasing ones"
            )
        slopes = {slope for _, slope in self.lam_and_slope}
        return min(float(ibnn.uniqueness_threshold(p, self.coupling, self.sigma)) for p in slopes)


@torch.no_grad()
def capture(network: nn.Module, standard: nn.Module, x: Tensor) -> list[LayerState]:
    """Every implicit layer of `network` on the batch x, first to last.

    A layer that is called several times is seen at its last call. `standard` is the network
    without implicit bias, with layers of the same names. What comes back is on the processor: few
    numbers of each layer are looked at closely, often in float64, which not every device has.
    """
    layers = {name: m for name, m in network.named_modules() if isinstance(m, ImplicitLayer)}
    if not layers:
        raise DoesNotApply("the network has no implicit layer; convert it first (--lam)")
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def remember(name: str) -> Any:
        return lambda _, given, out: seen.__setitem__(name, (given[0], out))

    handles = [layer.register_forward_hook(remember(name)) for name, layer in layers.items()]
    try:
        network(x)
    finally:
        for handle in handles:
            handle.remove()
    # a layer may be registered and not be on the way from input to output
    return [_state(name, layers[name], standard, *seen[name]) for name in layers if name in seen]


def _state(
    name: str, layer: ImplicitLayer, standard: nn.Module, x: Tensor, z: Tensor
) -> LayerState:
    affine, coupling = standard.get_submodule(name), layer.coupling
    y = affine(x)
    lam, slope = layer.effective_lam.detach(), layer.effective_slope.detach()
    if x.device.type != "cpu":
        x, y, z, lam, slope = (value.cpu() for value in (x, y, z, lam, slope))
        affine, coupling = copy.deepcopy(affine).cpu(), copy.deepcopy(coupling).cpu()
    return LayerState(name, affine, x, y, z, lam, slope, coupling, layer.sigma)


def representative_lam(states: Sequence[LayerState]) -> float:
    """The lam of small networks that stand for this one: the first layer's, or -0.2 if it is zero.

    Theirs are uniform weights, where the threshold is 1/p: at most 0.9 of that, so that lam stays
    below it with one unit more (stealth attack).
    """
    lam = float(states[0].lam.mean())
    if abs(lam) <= 1e-3 * states[0].threshold:
        return DEFAULT_LAM
    return min(lam, 0.9 / float(states[0].slope.max()))


def double(network: nn.Module) -> nn.Module:
    """A copy in float64, on the processor."""
    return copy.deepcopy(network).cpu().double().eval()


_RELU = {torch.relu, torch.relu_, torch.nn.functional.relu, Tensor.relu, Tensor.relu_}


class ReluInputs(TorchFunctionMode):
    """Writes down the inputs of every ReLU that is called inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func in _RELU:
            self._seen.append(args[0].detach().clone())
        return func(*args, **(kwargs or {}))

    def values(self, examples: int) -> Tensor | None:
        """(examples, units) of all ReLUs together; None if there was none."""
        if not self._seen:
            return None
        return torch.cat([values.reshape(examples, -1) for values in self._seen], 1)


@torch.no_grad()
def calls_relu(network: nn.Module, x: Tensor) -> bool:
    """Whether the network calls a ReLU on its way from x.

    >>> calls_relu(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.zeros(1, 2))
    True
    """
    with ReluInputs() as seen:
        network(x)
    return seen.values(len(x)) is not None
