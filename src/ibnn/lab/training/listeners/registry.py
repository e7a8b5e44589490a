"""Listeners by name, for `--log NAME`."""

from collections.abc import Callable, Iterable

from ibnn.lab.registry import Registry, expected
from ibnn.lab.training.errors import RunError
from ibnn.lab.training.listeners.listener import Listener


class ListenerError(RunError):
    """A listener that does not exist or cannot be used here; the message says what to do."""


_MAKERS: Registry[Callable[[], Listener]] = Registry("listener")


def register_listener(name: str, make: Callable[[], Listener]) -> None:
    """Make a listener known to `--log`: `make` is called once for each run.

    In worker processes it is known too if its module is a plugin (see `ibnn.lab.plugins`).

    Raises:
        ValueError: another listener has this name.
    """
    _MAKERS.register(name, make)


def listener_names() -> list[str]:
    """The names `--log` knows."""
    return list(_MAKERS)


def make_listeners(names: Iterable[str]) -> list[Listener]:
    """One fresh listener for each name.

    Raises:
        ListenerError: one of them is unknown, or what it needs is not installed.
    """
    chosen = list(names)
    for name in chosen:
        if name not in _MAKERS:
            raise ListenerError(f"log is {name!r}, {expected(name, _MAKERS)}")
    return [_MAKERS[name]() for name in chosen]


def _tensorboard() -> Listener:
    from ibnn.lab.training.listeners.tensorboard import TensorBoard

    return TensorBoard()


register_listener("tensorboard", _tensorboard)
