"""Implicit-bias neurons for PyTorch: layers with coupled units, solved exactly."""

from ibnn import solver
from ibnn._core.solution import (
    ConvergenceError,
    ConvergenceWarning,
    Solution,
    ThresholdWarning,
)
from ibnn.conversion.convert import Conversion, conversion_report, convert, standard
from ibnn.conversion.plan import LayerPlan, Plan
from ibnn.conversion.saving import load, save
from ibnn.coupling import Coupling, Dense, Uniform, Window
from ibnn.engine import engines
from ibnn.export import for_export
from ibnn.functional import energy, implicit_bias, residual, solve
from ibnn.nn.layer import ImplicitLayer
from ibnn.nn.layers import Conv1d, Conv2d, Conv3d, ImplicitBias, Linear
from ibnn.nn.parameter_groups import parameter_groups
from ibnn.nn.transposed import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ibnn.sigma import Sigma
from ibnn.theory import uniqueness_threshold

__version__ = "0.2.0"

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "ConvergenceError",
    "ConvergenceWarning",
    "Conversion",
    "Coupling",
    "Dense",
    "ImplicitBias",
    "ImplicitLayer",
    "LayerPlan",
    "Linear",
    "Plan",
    "Sigma",
    "Solution",
    "ThresholdWarning",
    "Uniform",
    "Window",
    "conversion_report",
    "convert",
    "energy",
    "engines",
    "for_export",
    "implicit_bias",
    "load",
    "parameter_groups",
    "residual",
    "save",
    "solve",
    "solver",
    "standard",
    "uniqueness_threshold",
]
