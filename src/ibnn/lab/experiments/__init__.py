"""The experiments of the paper, one file per figure, and what they have in common."""

from ibnn.lab.experiments.experiment import Experiment, ExperimentError, Preset, Run, Settings
from ibnn.lab.experiments.registry import about, get, names, register_experiment
from ibnn.lab.results import Claim, Findings, Picture, Table
from ibnn.lab.runner import ENGINES, collect, execute, plan

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
    "register_experiment",
]
