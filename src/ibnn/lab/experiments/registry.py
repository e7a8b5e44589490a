"""Experiments by name; their modules are imported when asked for."""

from __future__ import annotations

import difflib
import importlib

from ibnn.lab.experiments.experiment import Experiment, ExperimentError

# name on the command line -> (module, class, one line for `ibnn run --help`)
_KNOWN: dict[str, tuple[str, str, str]] = {
    "boundary": ("boundary", "Boundary", "decision boundaries in the plane (Fig. 2)"),
    "learning-speed": ("learning_speed", "LearningSpeed", "validation accuracy by epoch"),
    "data-fraction": ("data_fraction", "DataFraction", "accuracy against the share of the data"),
    "expressivity": ("expressivity", "Expressivity", "accuracy against the number of parameters"),
    "pgd": ("pgd", "Pgd", "accuracy under PGD, white box and transfer"),
    "pixle": ("pixle", "PixleBars", "accuracy under Pixle, a black-box attack"),
    "memorization": ("memorization", "Memorization", "accuracy against wrong labels"),
    "transfer": ("transfer", "Transfer", "trained standard networks converted, against lam"),
    "lambda-sweep": ("lambda_sweep", "LambdaSweep", "accuracy over lam and slope"),
}


def names() -> list[str]:
    """Every experiment that can be run."""
    return list(_KNOWN)


def about() -> dict[str, str]:
    """What each experiment draws, in a few words."""
    return {name: line for name, (_, _, line) in _KNOWN.items()}


def get(name: str) -> Experiment:
    """The experiment of that name; an unknown one is an error that tells the nearest."""
    if name not in _KNOWN:
        near = difflib.get_close_matches(name, _KNOWN, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_KNOWN)}"
        raise ExperimentError(f"unknown experiment {name!r}, {hint}")
    module, kind, _ = _KNOWN[name]
    return getattr(importlib.import_module(f"ibnn.lab.experiments.{module}"), kind)()
