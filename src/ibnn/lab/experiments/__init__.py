"""The experiments of the paper, one file per figure, and what they have in common."""

from ibnn.lab.experiments.execution import ENGINES, collect, execute, plan
from ibnn.lab.experiments.experiment import (
    Claim,
    Experiment,
    ExperimentError,
    Findings,
    Picture,
    Preset,
    Run,
    Settings,
    Table,
)
from ibnn.lab.experiments.registry import about, get, names

__all__ = [
    "ENGINES",
    "Claim",
    "Experiment",
    "ExperimentError",
    "Findings",
    "Picture",
    "Preset",
    "Run",
    "Settings",
    "Table",
    "about",
    "collect",
    "execute",
    "get",
    "names",
    "plan",
]
