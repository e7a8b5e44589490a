"""Parts by name: those that come with the laboratory, and those a user registered."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar

T = TypeVar("T")

# A script has one of these names where it runs, and its own where it is imported as a plugin.
_SCRIPTS = {"__main__", "__mp_main__"}


class Registry(dict[str, T]):
    """The parts of one kind (networks, attacks, ...), in the order of registration.

    Args:
        what: the kind, as messages call it.
        parts: those that come with the laboratory; a text is where one is imported from.
    """

    def __init__(self, what: str, parts: Mapping[str, T] | None = None) -> None:
        super().__init__(parts or {})
        self.what = what

    def register(self, name: str, part: T) -> None:
        """Make a part known; the same one again takes the place of the first.

        Raises:
            ValueError: the name is taken by another one.
        """
        known = self.get(name)
        if known is not None and not _same(known, part):
            raise ValueError(f"{self.what} {name!r} is registered already, by {_origin(known)}")
        self[name] = part

    def find(self, name: str) -> T:
        """The part of that name; an unknown one is a ValueError that says what there is."""
        if name not in self:
            raise ValueError(f"{self.what} is {name!r}, {expected(name, self)}")
        return self[name]


def expected(name: str, known: Iterable[str], more: str = "") -> str:
    """The end of a message about an unknown name: what there is, and what may have been meant.

    >>> expected("digts", ["mnist", "digits"], " or a file")
    "expected one of mnist, digits or a file; did you mean 'digits'?"
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"expected one of {', '.join(names)}{more}{hint}"


def _same(known: Any, new: Any) -> bool:
    """Whether both are the class or function of one name in one module.

    They are two objects when a module is loaded again or a cell of a notebook is run again. One
    dataclass makes several parts: its fields tell which.
    """
    if isinstance(known, str) or isinstance(new, str):
        return known == new
    first, second = _definition(known), _definition(new)
    modules = {first.__module__, second.__module__}
    if first.__qualname__ != second.__qualname__ or (len(modules) > 1 and not modules & _SCRIPTS):
        return False
    several = is_dataclass(new) and not isinstance(new, type)
    return not several or vars(known) == vars(new)


def _definition(part: Any) -> Any:
    """The class or function itself, or the class of an object."""
    return part if hasattr(part, "__qualname__") else type(part)


def _origin(part: Any) -> str:
    if isinstance(part, str):
        return part
    found = _definition(part)
    return f"{found.__module__}.{found.__qualname__}"
