"""Who listens to whom: the weights w of the lateral sum, and the sums made with them."""

from ibnn.coupling.coupling import Coupling
from ibnn.coupling.dense import Dense
from ibnn.coupling.sums import PairSums
from ibnn.coupling.uniform import Uniform
from ibnn.coupling.window import Window

__all__ = ["Coupling", "Dense", "PairSums", "Uniform", "Window"]
