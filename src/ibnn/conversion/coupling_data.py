"""A coupling as data that JSON can hold, and back."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ibnn.coupling import Coupling, Dense, Uniform, Window


def data_of(coupling: Coupling) -> dict[str, Any]:
    """`config()`, and what it leaves to the checkpoint: all that `coupling_from` needs."""
    config = coupling.config()
    if isinstance(coupling, Window) and coupling.learnable:
        config["std"] = float(coupling.std.detach())
    if isinstance(coupling, Dense):
        raw = coupling.raw.detach() if coupling.learnable else coupling.given
        config["weight"] = raw.double().tolist()
    return config


def coupling_from(data: Mapping[str, Any]) -> Coupling:
    """The coupling that `data_of` describes.

    One of a user's own is found by the name of its class, which must be defined by then; it is made
    by its `from_config(config)` where it has one, else without arguments.
    """
    settings = dict(data)
    kind = settings.pop("kind", None)
    try:
        if kind == "Uniform":
            return Uniform(tuple(settings["dims"]))
        if kind == "Window":
            settings["kernel_size"] = tuple(settings["kernel_size"])
            return Window(**settings)
        if kind == "Dense":
            exact = torch.tensor(settings["weight"], dtype=torch.float64)
            single = exact.to(torch.get_default_dtype())
            weight = single if torch.equal(single.double(), exact) else exact
            return Dense(weight, learnable=settings.get("learnable", False))
    except (KeyError, TypeError) as error:
        raise ValueError(f"coupling {kind} cannot be made from {settings}: {error}") from None
    return _own(kind, data)


def _own(kind: Any, data: Mapping[str, Any]) -> Coupling:
    known = next((found for found in _subclasses(Coupling) if found.__name__ == kind), None)
    if known is None:
        raise ValueError(f"coupling {kind!r} is not known here: import the module that defines it")
    make: Any = getattr(known, "from_config", None)
    if make is not None:
        return make(data)
    try:
        made = known()
    except TypeError:
        made = None
    if made is None or made.config() != data:
        raise ValueError(
            f"coupling {kind} cannot be rebuilt from {dict(data)}: give the class a classmethod "
            "from_config(config)"
        )
    return made


def _subclasses(kind: type[Coupling]) -> Iterator[type[Coupling]]:
    # the newest first: a class that was defined anew, as in a notebook, counts
    for found in reversed(kind.__subclasses__()):
        yield found
        yield from _subclasses(found)
