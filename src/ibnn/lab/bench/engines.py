"""The two engines behind the uniform coupling, and how one is chosen for a measurement."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from ibnn import kernelsum
from ibnn.kernelsum import native, portable

NAMES = ("native", "portable")
_MODULES: dict[str, ModuleType] = {"native": native, "portable": portable}


def available(name: str) -> bool:
    """Whether this engine works here; asking compiles the native one, once."""
    return name == "portable" or native.available()


@contextmanager
def using(name: str) -> Iterator[None]:
    """Every sum and solve inside the block is done by this engine."""
    before = kernelsum._engine
    kernelsum._engine = lambda tensor: _MODULES[name]
    try:
        yield
    finally:
        kernelsum._engine = before


def environment(name: str) -> dict[str, str]:
    """The environment in which a new process uses this engine."""
    return {**os.environ, "IBNN_NATIVE": "1" if name == "native" else "0"}
