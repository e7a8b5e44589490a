"""Listeners of a run while it is trained: a progress display, TensorBoard, or a user's own."""

from ibnn.lab.training.listeners.listener import CallOnEpoch, Listener
from ibnn.lab.training.listeners.registry import (
    ListenerError,
    listener_names,
    make_listeners,
    register_listener,
)

__all__ = [
    "CallOnEpoch",
    "Listener",
    "ListenerError",
    "listener_names",
    "make_listeners",
    "register_listener",
]
