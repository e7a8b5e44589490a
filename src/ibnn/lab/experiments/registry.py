"""Experiments by name; those that come with the laboratory are imported when asked for."""

import importlib

from ibnn.lab.experiment_table import OWN
from ibnn.lab.experiments.experiment import Experiment, ExperimentError
from ibnn.lab.registry import Registry, expected

# name -> its class, or the module and name of one that comes with the laboratory
_EXPERIMENTS: Registry[type[Experiment] | str] = Registry(
    "experiment", {name: f"ibnn.lab.experiments.{place}" for name, (place, _) in OWN.items()}
)


def register_experiment(kind: type[Experiment]) -> type[Experiment]:
    """Make an experiment known by its name, here and to `ibnn run`; to be used as a decorator.

    Raises:
        ValueError: another experiment has this name.
    """
    _EXPERIMENTS.register(kind.name, kind)
    return kind


def names() -> list[str]:
    """Every experiment that can be run."""
    return list(_EXPERIMENTS)


def about() -> dict[str, str]:
    """What each experiment draws, in a few words."""
    return {
        name: OWN[name][1] if isinstance(kind, str) else kind.title
        for name, kind in _EXPERIMENTS.items()
    }


def get(name: str) -> Experiment:
    """The experiment of that name; an unknown one is an error that names the nearest."""
    if name not in _EXPERIMENTS:
        raise ExperimentError(f"unknown experiment {name!r}, {expected(name, _EXPERIMENTS)}")
    found = _EXPERIMENTS[name]
    if not isinstance(found, str):
        return found()
    module, _, kind = found.partition(":")
    return getattr(importlib.import_module(module), kind)()
