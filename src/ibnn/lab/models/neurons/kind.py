"""A neuron: its settings, what a kind of it has to say, and the kinds by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import nn

from ibnn.lab.registry import Registry


@dataclass(frozen=True)
class Neuron:
    """A kind of neuron by name and the settings its hidden layers are made with.

    `lam` is one number for every layer, or one per layer. `coupling` is a name that
    `ibnn.Conv2d` knows or a coupling object, of which each layer gets its own copy. `solve`
    holds the remaining keywords of the implicit layer (`solver`, `adjoint`, `atol`, ...). A kind
    uses what its `fields` name and ignores the rest.
    """

    kind: str = "standard"
    lam: float | Sequence[float] = 0.0
    slope: float = 10.0
    learn_lam: bool = True
    learn_slope: bool = False
    bounded: bool = True
    coupling: Any = None
    sigma: str = "tanh"
    solve: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        neuron_kind(self.kind)

    def conv2d(
        self,
        layer: int,
        in_channels: int,
        out_channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        bias: bool = True,
    ) -> nn.Conv2d:
        """The convolution of hidden layer number `layer`."""
        made = neuron_kind(self.kind).conv2d(self, layer, in_channels, out_channels, kernel)
        # set on the finished layer, so that a kind need not know of them: what a neuron adds
        # follows the convolution, whatever its stride
        made.stride, made.padding = (stride, stride), (padding, padding)
        if not bias:
            made.register_parameter("bias", None)
        return made

    def linear(self, layer: int, in_features: int, out_features: int) -> nn.Linear:
        """The fully connected map of hidden layer number `layer`."""
        return neuron_kind(self.kind).linear(self, layer, in_features, out_features)

    def of_features(self) -> Neuron:
        """The same without a coupling of images: the units of a linear layer are one row."""
        return replace(self, coupling=None)

    def lam_of(self, layer: int) -> float:
        """Where lam of hidden layer number `layer` starts, or stays."""
        return float(self.lam[layer] if isinstance(self.lam, Sequence) else self.lam)

    def check_layers(self, layers: int) -> None:
        """Refuse a list of `lam` that does not have one value per layer."""
        if isinstance(self.lam, Sequence) and len(self.lam) != layers:
            raise ValueError(f"lam has {len(self.lam)} values, expected one or {layers}")


class NeuronKind(ABC):
    """One kind of neuron. Subclass it, then `register_neuron` an instance.

    Attributes:
        name: how a run names it.
        about: one line for people; formulas with y (the affine output) and z (what follows).
        fields: the fields of `RunConfig` it uses. They enter the identity of its runs; all
            other fields of the neuron do not.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    fields: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def conv2d(
        self, neuron: Neuron, layer: int, in_channels: int, out_channels: int, kernel: int
    ) -> nn.Conv2d:
        """The convolution of hidden layer number `layer`, and whatever the neuron adds to it.

        Weight and bias keep the names of `nn.Conv2d`: the warm-up hands over a standard network's.
        """

    @abstractmethod
    def linear(self, neuron: Neuron, layer: int, in_features: int, out_features: int) -> nn.Linear:
        """The fully connected map of hidden layer number `layer`, likewise."""

    def first_lam(self, neuron: Neuron, layer: int, channels: int) -> float | list[float]:
        """Where lam of hidden layer number `layer` starts, or stays; one per channel if several."""
        return neuron.lam_of(layer)

    def title(self, config: Any) -> str:
        """The neuron of a run in a few words; `config` has the fields named in `fields`."""
        return self.name


_KINDS: Registry[NeuronKind] = Registry("neuron")


def register_neuron(kind: NeuronKind) -> None:
    """Make a kind known: from then on a run may name it as its `neuron`.

    Raises:
        ValueError: the name is taken by a kind of another class.
    """
    _KINDS.register(kind.name, kind)


def neuron_kind(name: str) -> NeuronKind:
    """The kind of that name.

    >>> neuron_kind("mean-field").about
    'z = y - lam tanh(p (m - y)), m the mean of the map: each unit is coupled only to the mean, ...'
    """
    return _KINDS.find(name)


def neuron_names() -> tuple[str, ...]:
    """Every registered name, in the order of registration."""
    return tuple(_KINDS)


def lam_title(config: Any) -> str:
    """How lam was chosen: `lam learnt from 0`, or `lam -0.2`; a slope that is not 10."""
    numbers = config.lam if isinstance(config.lam, tuple) else (config.lam,)
    start = ", ".join(f"{value:g}" for value in numbers)
    words = f"lam learnt from {start}" if config.learn_lam else f"lam {start}"
    return words + (f" slope {config.slope:g}" if config.slope != 10 else "")
