"""How z is found: one algorithm per file, all against one `System`, chosen by name or object."""

import dataclasses
import json
from typing import Any

from ibnn._registry import Registry
from ibnn.solver.anderson import Anderson
from ibnn.solver.base import Found, Iteration, Solver
from ibnn.solver.broyden import Broyden
from ibnn.solver.gradient import Gradient
from ibnn.solver.lite import Lite
from ibnn.solver.newton import Newton
from ibnn.solver.picard import Picard

__all__ = [
    "Anderson",
    "Broyden",
    "Found",
    "Gradient",
    "Iteration",
    "Lite",
    "Newton",
    "Picard",
    "Solver",
    "names",
    "register",
    "resolve",
]

REGISTRY: Registry[Solver] = Registry("solver", Solver)
NEWTON = REGISTRY.register(Newton())
for _kind in (Gradient, Picard, Anderson, Broyden, Lite):
    REGISTRY.register(_kind())
# options of programs exported by older versions
_RENAMED = {"reduce": "use_engine"}
_KINDS: dict[str, type[Solver]] = {name: type(REGISTRY.lookup(name)) for name in REGISTRY.names()}


def register(solver: Solver) -> Solver:
    """Register a solver of your own, so that `solver=` accepts its name as it does built-in ones.

    Args:
        solver: an instance; `solver=` accepts its `name`.
    """
    return REGISTRY.register(solver)


def names() -> list[str]:
    """Every name that `solver=` takes.

    Examples:
        >>> names()
        ['newton', 'gradient', 'picard', 'anderson', 'broyden', 'lite']
    """
    return REGISTRY.names()


def resolve(solver: "str | Solver") -> Solver:
    """The solver meant by a name or an object."""
    return REGISTRY.resolve(solver)


def key(solver: Solver) -> str:
    """A text under which `lookup` finds this solver again: its name, with what differs from its
    defaults, so that another process can read it."""
    if solver.name in REGISTRY.names() and solver == REGISTRY.lookup(solver.name):
        solver = REGISTRY.lookup(solver.name)  # an equal object has the key of the registered one
        return REGISTRY.key(solver)
    if _KINDS.get(solver.name) is not type(solver):
        return REGISTRY.key(solver)
    options = dataclasses.asdict(solver)  # type: ignore[call-overload]
    return solver.name + json.dumps(options, separators=(",", ":"), default=_plain_number)


def _plain_number(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item()


def lookup(text: str) -> Solver:
    """The solver with this key; an unnamed one must still be alive in this process."""
    name, brace, options = text.partition("{")
    if brace and name in _KINDS:
        chosen: dict[str, Any] = json.loads(brace + options)
        renamed = {_RENAMED.get(option, option): value for option, value in chosen.items()}
        return _KINDS[name](**renamed)
    return REGISTRY.lookup(text)
