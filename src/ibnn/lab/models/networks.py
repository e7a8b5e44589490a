"""Networks by name: what a run can name as its `network`.

To add one: a file with a `NetworkKind` and a line in `ibnn.lab.models`; or `register_network(...)`
from anywhere outside the package.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from ibnn.lab.models.neurons.kind import Neuron
from ibnn.lab.registry import Registry


class NetworkKind(ABC):
    """One architecture. Subclass it, then `register_network` an instance.

    Attributes:
        name: how a run names it.
        about: one line for people.
        makes: the network's class, unless `build` does without it.
        fields: the fields of `RunConfig` that give its size. They enter the identity of its
            runs; the size fields of other networks do not.
        images: whether it needs images (channels, height, width).
        text: whether it needs text: pieces of characters, each with the ones that follow.
        tokens: whether its hidden layers see tokens: the units of each are a row of their own.
        sizes: what `width` and `depth` are where a run leaves them open.
        recipe: the optimizer, schedule and augmentation people use for it, as fields of
            `RunConfig`: what `ibnn train` takes unless it is told otherwise.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    makes: ClassVar[Callable[..., nn.Module]]
    fields: ClassVar[tuple[str, ...]] = ()
    images: ClassVar[bool] = True
    text: ClassVar[bool] = False
    tokens: ClassVar[bool] = False
    sizes: ClassVar[Mapping[str, int]] = {}
    recipe: ClassVar[Mapping[str, Any]] = {}

    def build(
        self,
        config: Any,
        image_shape: Sequence[int],
        classes: int,
        neuron: Neuron,
        generator: torch.Generator,
    ) -> nn.Module:
        """The network with its first weights, drawn from `generator` as `initialize` does.

        By default a call of `makes` with all of this by keyword, sizes by the names of `fields`.

        Args:
            config: has the fields named in `fields`, and `initialisation`.
            neuron: makes the hidden layers.
        """
        return self.makes(
            **self.ends(image_shape, classes),
            **{name: self.size(config, name) for name in self.fields},
            neuron=neuron,
            initialisation=config.initialisation,
            generator=generator,
        )

    def ends(self, image_shape: Sequence[int], classes: int) -> dict[str, Any]:
        """What the network is given and what it gives back, as `makes` takes them."""
        return {"image_shape": image_shape, "classes": classes}

    @abstractmethod
    def title(self, config: Any) -> str:
        """The network of a run in a few words, such as `UCN(2,3)`."""

    def hidden_layers(self, config: Any) -> int:
        """How many layers the neuron makes: a `lam` per layer has as many values."""
        return 1

    def check(self, config: Any) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse sizes that do not fit each other, with a ValueError of one line."""

    def size(self, config: Any, name: str) -> Any:
        """A size of the run's network: the run's own, else this kind's usual one."""
        chosen = getattr(config, name)
        return self.sizes[name] if chosen is None else chosen

    def growth(self, config: Any) -> float:
        """What the time of a step grows with, more or less: the product of its sizes."""
        return math.prod(self.size(config, name) for name in self.fields)


_KINDS: Registry[NetworkKind] = Registry("network")


def register_network(kind: NetworkKind) -> None:
    """Make a network known: from then on a run may name it as its `network`.

    Raises:
        ValueError: the name is taken by a network of another class.
    """
    _KINDS.register(kind.name, kind)


def network_kind(name: str) -> NetworkKind:
    """The network of that name.

    >>> network_kind("ucn").fields
    ('layers', 'channels')
    """
    return _KINDS.find(name)


def network_names() -> tuple[str, ...]:
    """Every registered name, in the order of registration."""
    return tuple(_KINDS)
