"""Fast sums and solves: one registry asks each engine whether it can serve, the fastest first.

`native` is compiled C++ for the CPU, `triton` kernels for GPUs, `portable` plain torch ops for any
device. Where all decline a solve (a sigma or coupling of the user's own, say), the solver does it
on sums over all pairs.
IBNN_ENGINE=name or the argument `engine` of a solve demands one.
"""

import os

import torch

from ibnn._registry import Registry, registry_cache
from ibnn.engine.base import (
    AT_SADDLE,
    AdjointSolutions,
    Case,
    Engine,
    EngineError,
    RowSolutions,
    case_of,
)
from ibnn.engine.native import NativeEngine
from ibnn.engine.portable import PortableEngine
from ibnn.engine.triton import TritonEngine

__all__ = [
    "AT_SADDLE",
    "AdjointSolutions",
    "Case",
    "Engine",
    "EngineError",
    "RowSolutions",
    "case_of",
    "check_name",
    "choose",
    "demanded",
    "engines",
    "register",
]

# in the order they are asked
_REGISTRY: Registry[Engine] = Registry("engine", Engine)
_REGISTRY.register(NativeEngine())
_REGISTRY.register(TritonEngine())
_REGISTRY.register(PortableEngine())


def register(engine: Engine) -> Engine:
    """Makes an engine known; it is asked after those that are known already, or when demanded.

    Args:
        engine: an instance; its `name` is what users write.
    """
    return _REGISTRY.register(engine)


def engines() -> dict[str, Engine]:
    """The engines by name, in the order they are asked.

    Examples:
        >>> list(engines())
        ['native', 'triton', 'portable']
    """
    return {name: _REGISTRY.lookup(name) for name in _REGISTRY.names()}


def check_name(name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(
            f"engine must be a name, one of {_REGISTRY.names()}, got a {type(name).__name__}"
        )
    if name not in _REGISTRY.names():
        raise ValueError(f"engine={name!r} is not known; expected one of {_REGISTRY.names()}")


def demanded(name: str | None) -> str | None:
    """The engine that must serve: the one of this name, or that of the environment."""
    return name or os.environ.get("IBNN_ENGINE") or None


def choose(case: Case, name: str | None = None) -> Engine | None:
    """The engine for this case; None where none has a solve, and the solver has to do it on sums.

    A demanded engine that has neither the solve nor the sums is an error. Sums of high order, which
    only second and further derivatives need, may come from another.
    """
    return _choose(case, demanded(name))


@registry_cache
def _choose(case: Case, name: str | None) -> Engine | None:
    if name is not None:
        check_name(name)
        engine = _REGISTRY.lookup(name)
        reason = engine.declines(case)
        if reason is None:
            return engine
        # of what a solve or the sums of a solver need it has to serve something; sums in doubles
        # may belong to a solve in floats, and come from another
        kinds = {case.dtype, torch.float32} if case.operation == "pair_sum" else {case.dtype}
        needed = (
            case._replace(operation=operation, order=0, dtype=dtype)
            for operation in ("solve", "pair_sum")
            for dtype in kinds
        )
        if all(engine.declines(one) is not None for one in needed):
            raise EngineError(f"engine {name!r} cannot serve here: {reason}")
        if case.operation != "pair_sum":
            return None
    for engine in engines().values():
        if engine.declines(case) is None:
            return engine
    return None
