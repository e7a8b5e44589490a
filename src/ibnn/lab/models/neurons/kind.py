"""What a kind of neuron has to say: its name, the settings it uses, its hidden layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

if TYPE_CHECKING:
    from ibnn.lab.models.neuron import Neuron


class NeuronKind(ABC):
    """One kind of neuron. Subclass it, then `register_neuron` an instance.

    Attributes:
        name: how a run names it.
        about: one line for people; formulas with y (the affine output) and z (what follows).
        fields: the fields of `RunConfig` it uses. They enter the identity of its runs; all
            other fields of the neuron do not.
        more_parameters: whether it has learnt numbers beyond one or two per layer, so that a
            comparison at equal width is not one at equal size.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    fields: ClassVar[tuple[str, ...]] = ()
    more_parameters: ClassVar[bool] = False

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


def lam_title(config: Any) -> str:
    """How lam was chosen: `lam learnt from 0`, or `lam -0.2`; a slope that is not 10."""
    numbers = config.lam if isinstance(config.lam, tuple) else (config.lam,)
    start = ", ".join(f"{value:g}" for value in numbers)
    words = f"lam learnt from {start}" if config.learn_lam else f"lam {start}"
    return words + (f" slope {config.slope:g}" if config.slope != 10 else "")
