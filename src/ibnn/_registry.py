"""Parts by name: built-in ones, those a user registered, and unnamed objects while they live."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from ibnn._checks import shown

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_listeners: list[Callable[[], None]] = []


def after_registration(listener: Callable[[], None]) -> Callable[[], None]:
    """A decorator: the function is called after a part of any kind was registered."""
    _listeners.append(listener)
    return listener


def registry_cache(function: F) -> F:
    """`lru_cache` for what depends on which parts are registered."""
    cached: Any = lru_cache(maxsize=1024)(function)
    after_registration(cached.cache_clear)
    return cached


class Registry(Generic[T]):
    """The parts of one kind (sigmas, solvers, pair sums, engines); each has a `name`.

    An op can be given text only, so every part has a key: its name where it is registered, and
    otherwise one under which it is found for as long as it is alive in this process.
    """

    def __init__(self, what: str, kind: type[T]) -> None:
        self.what = what
        self.kind = kind
        self._named: dict[str, T] = {}
        self._unnamed: WeakValueDictionary[str, Any] = WeakValueDictionary()

    def register(self, part: T) -> T:
        """Makes `part` known by its name, in place of one registered before."""
        if not isinstance(part, self.kind):
            raise TypeError(f"{self.what} must be a {self.kind.__name__}, got {shown(part)}")
        name = self._name(part)
        if name.split() != [name]:
            raise ValueError(f"{self.what} has name={name!r}; expected one without spaces")
        self._named[name] = part
        for listener in _listeners:
            listener()
        return part

    def names(self) -> list[str]:
        return list(self._named)

    def resolve(self, part: "str | T") -> T:
        """The part meant by a name or an object."""
        if isinstance(part, str):
            if part in self._named:
                return self._named[part]
            raise ValueError(
                f"{self.what}={part!r} is not known; expected one of {sorted(self._named)} "
                f"or a {self.kind.__name__}"
            )
        if not isinstance(part, self.kind):
            raise TypeError(
                f"{self.what} must be a name or a {self.kind.__name__}, got {shown(part)}"
            )
        self._name(part)
        return part

    def key(self, part: T) -> str:
        """A text without spaces under which `lookup` finds this part again."""
        name = self._name(part)
        if self._named.get(name) is part:
            return name
        key = f"{'_'.join(name.split())}@{id(part)}"
        self._unnamed[key] = part
        return key

    def lookup(self, key: str) -> T:
        """The part with this key; an unnamed one must still be alive in this process."""
        found = self._named.get(key)
        if found is None:
            found = self._unnamed.get(key)
        if found is None:
            raise LookupError(
                f"{self.what} {key!r} is not known in this process; expected one of {self.names()}"
            )
        return found

    def _name(self, part: Any) -> str:
        name = getattr(part, "name", None)
        if not isinstance(name, str):
            raise TypeError(f"{self.what} {part!r} needs a name, as an attribute of its class")
        return name
