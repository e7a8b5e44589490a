"""Experiments by name; those that come with the laboratory are imported when asked for."""

import difflib
import importlib

from ibnn.lab.experiment_table import OWN
from ibnn.lab.experiments.experiment import Experiment, ExperimentError

_REGISTERED: dict[str, type[Experiment]] = {}


def register_experiment(kind: type[Experiment]) -> type[Experiment]:
    """Make an experiment known by its name, here and to `ibnn run`; to be used as a decorator.

    Raises:
        ValueError: another experiment has this name.
    """
    known = _REGISTERED.get(kind.name, kind)
    # the same class again is a module that was loaded twice, as notebooks do
    if kind.name in OWN or known.__qualname__ != kind.__qualname__:
        raise ValueError(f"an experiment named {kind.name!r} is registered already")
    _REGISTERED[kind.name] = kind
    return kind


def names() -> list[str]:
    """Every experiment that can be run."""
    return [*OWN, *_REGISTERED]


def about() -> dict[str, str]:
    """What each experiment draws, in a few words."""
    own = {name: line for name, (_, line) in OWN.items()}
    return own | {name: kind.title for name, kind in _REGISTERED.items()}


def get(name: str) -> Experiment:
    """The experiment of that name; an unknown one is an error that names the nearest."""
    if name in _REGISTERED:
        return _REGISTERED[name]()
    if name not in OWN:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names())}"
        raise ExperimentError(f"unknown experiment {name!r}, {hint}")
    module, _, kind = OWN[name][0].partition(":")
    return getattr(importlib.import_module(f"ibnn.lab.experiments.{module}"), kind)()
