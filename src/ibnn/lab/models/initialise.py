"""Old name of `ibnn.lab.models.initialize`, kept for one version."""

import warnings

from ibnn.lab.models.initialize import initialize as initialise

__all__ = ["initialise"]

warnings.warn("ibnn.lab.models.initialise is now .initialize", DeprecationWarning, stacklevel=2)
