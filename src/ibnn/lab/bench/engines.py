"""The two engines behind the uniform coupling, and how one is chosen for a measurement."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from ibnn import engine
from ibnn.engine.native import calls as native
from ibnn.engine.native import loader
from ibnn.engine.portable import rows as portable

NAMES = ("native", "portable")
_MODULES: dict[str, ModuleType] = {"native": native, "portable": portable}


def available(name: str) -> bool:
    """Whether this engine works here; asking compiles the native one, once."""
    return name == "portable" or loader.available()


@contextmanager
def using(name: str) -> Iterator[None]:
    """Every sum and solve inside the block is done by this engine."""
    before = engine._engine
    engine._engine = lambda tensor: _MODULES[name]
    try:
        yield
    finally:
        engine._engine = before


def environment(name: str) -> dict[str, str]:
    """The environment in which a new process uses this engine."""
    return {**os.environ, "IBNN_NATIVE": "1" if name == "native" else "0"}
