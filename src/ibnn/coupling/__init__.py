"""Couplings: which units form a row, the weights between them, and sums with these weights."""

from ibnn.coupling.coupling import Coupling, check_is_coupling
from ibnn.coupling.dense import Dense
from ibnn.coupling.sums import PairSums
from ibnn.coupling.uniform import Uniform
from ibnn.coupling.window import Window

__all__ = ["Coupling", "Dense", "PairSums", "Uniform", "Window", "check_is_coupling"]
