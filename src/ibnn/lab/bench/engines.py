"""The two CPU engines behind the uniform coupling, and how one is chosen for a measurement."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ibnn.engine.native import loader

NAMES = ("native", "portable")


def available(name: str) -> bool:
    """Whether this engine works here; asking compiles the native one, once."""
    return name == "portable" or loader.available()


@contextmanager
def using(name: str) -> Iterator[None]:
    """Every sum and solve inside the block is done by this engine."""
    before = os.environ.get("IBNN_ENGINE")
    os.environ["IBNN_ENGINE"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["IBNN_ENGINE"]
        else:
            os.environ["IBNN_ENGINE"] = before


def by(name: str, function: Callable[..., object], *arguments: object) -> Callable[[], None]:
    """A call of the function by this engine."""

    def call() -> None:
        with using(name):
            function(*arguments)

    return call


def environment(name: str) -> dict[str, str]:
    """The environment in which a new process uses this engine."""
    return {**os.environ, "IBNN_ENGINE": name}
