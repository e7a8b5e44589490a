"""Experiments by name; those that come with the laboratory are imported when asked for."""

from __future__ import annotations

import difflib
import importlib

from ibnn.lab.experiments.experiment import Experiment, ExperimentError

# name on the command line -> (where its class is, one line for `ibnn run --help`)
_OWN: dict[str, tuple[str, str]] = {
    "boundary": ("boundary.experiment:Boundary", "decision boundaries in the plane (Fig. 2)"),
    "learning-speed": ("accuracy.learning_speed:LearningSpeed", "validation accuracy by epoch"),
    "data-fraction": ("accuracy.data_fraction:DataFraction", "accuracy from less training data"),
    "expressivity": ("accuracy.expressivity:Expressivity", "accuracy against parameters"),
    "pgd": ("robustness.pgd:PgdCurves", "robust accuracy under PGD, white box and transfer"),
    "pixle": ("robustness.pixle:PixleBars", "robust accuracy under Pixle, a black-box attack"),
    "memorization": ("accuracy.memorization:Memorization", "accuracy against wrong labels"),
    "overfitting": ("overfitting.experiment:Overfitting", "wrong labels learnt by heart"),
    "transfer": ("transfer.experiment:Transfer", "trained standard networks, converted"),
    "controls": ("controls.experiment:Controls", "other maps in place of the implicit solve"),
    "controls-torch": ("controls.torch_initialization:ControlsTorch", "the same, torch's start"),
    "controls-tuned": ("controls.tuned:ControlsTuned", "the same with tuned learning rates"),
    "pareto": ("pareto.experiment:Pareto", "robust against clean accuracy, many neurons"),
    "lambda-sweep": ("lambda_sweep.experiment:LambdaSweep", "accuracy over lam and slope"),
    "capacity": ("capacity.experiment:Capacity", "what three hidden neurons can represent"),
}
_REGISTERED: dict[str, type[Experiment]] = {}


def register_experiment(kind: type[Experiment]) -> type[Experiment]:
    """Make an experiment known by its name, here and to `ibnn run`; to be used as a decorator.

    Raises:
        ValueError: another experiment has this name.
    """
    known = _REGISTERED.get(kind.name, kind)
    # the same class again is a module that was loaded twice, as notebooks do
    if kind.name in _OWN or known.__qualname__ != kind.__qualname__:
        raise ValueError(f"an experiment named {kind.name!r} is registered already")
    _REGISTERED[kind.name] = kind
    return kind


def names() -> list[str]:
    """Every experiment that can be run."""
    return [*_OWN, *_REGISTERED]


def about() -> dict[str, str]:
    """What each experiment draws, in a few words."""
    own = {name: line for name, (_, line) in _OWN.items()}
    return own | {name: kind.title for name, kind in _REGISTERED.items()}


def get(name: str) -> Experiment:
    """The experiment of that name; an unknown one is an error that tells the nearest."""
    if name in _REGISTERED:
        return _REGISTERED[name]()
    if name not in _OWN:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names())}"
        raise ExperimentError(f"unknown experiment {name!r}, {hint}")
    module, _, kind = _OWN[name][0].partition(":")
    return getattr(importlib.import_module(f"ibnn.lab.experiments.{module}"), kind)()
