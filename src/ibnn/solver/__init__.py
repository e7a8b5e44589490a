"""How z is found: one algorithm per file, all against one `System`, chosen by name or object."""

import dataclasses
import json
from weakref import WeakValueDictionary

from ibnn.solver.anderson import Anderson
from ibnn.solver.base import Found, Solver
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
    "Lite",
    "Newton",
    "Picard",
    "Solver",
    "key",
    "lookup",
    "names",
    "resolve",
]

_BUILT_IN: dict[str, type[Solver]] = {
    s.name: s for s in (Newton, Gradient, Picard, Anderson, Broyden, Lite)
}


def names() -> list[str]:
    return list(_BUILT_IN)


def resolve(solver: "str | Solver") -> Solver:
    """The solver meant by a name or an object."""
    if isinstance(solver, str):
        if solver in _BUILT_IN:
            return _BUILT_IN[solver]()
        raise ValueError(f"solver={solver!r} is not known; expected one of {names()} or a Solver")
    if not isinstance(solver, Solver):
        raise TypeError(f"solver must be a name or an ibnn.solver.Solver, got {solver!r}")
    return solver


def key(solver: Solver) -> str:
    """A text under which `lookup` finds this solver again, with its options."""
    if _BUILT_IN.get(solver.name) is type(solver):
        options = dataclasses.asdict(solver)  # type: ignore[call-overload]
        return solver.name + json.dumps(options, separators=(",", ":"))
    text = f"{'_'.join(solver.name.split())}@{id(solver)}"
    _own[text] = solver
    return text


def lookup(text: str) -> Solver:
    """The solver with this key; one of the user's own must still be alive in this process."""
    if text in _BUILT_IN:
        return _BUILT_IN[text]()
    name, brace, options = text.partition("{")
    if brace and name in _BUILT_IN:
        return _BUILT_IN[name](**json.loads(brace + options))
    found = _own.get(text)
    if found is None:
        raise LookupError(f"solver {text!r} is not known in this process")
    return found


_own: "WeakValueDictionary[str, Solver]" = WeakValueDictionary()
