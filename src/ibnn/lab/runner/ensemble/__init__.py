"""Engine `ensemble`: small perceptrons trained as one ensemble, each still a run of its own.

The steps are those of `ibnn.lab.training.train`, for all networks at once; each run has its
folder, its metrics, its checkpoints and its result, and goes on from them after a kill. The
steps equal those of a run trained alone up to rounding (sums are taken in another order), which a
long training may amplify.
"""

from ibnn.lab.runner.ensemble.engine import run, suits
from ibnn.lab.runner.ensemble.networks import Ensemble

__all__ = ["Ensemble", "run", "suits"]
