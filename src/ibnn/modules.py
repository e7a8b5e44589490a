"""Old name of `ibnn.nn`, kept for one version."""

import warnings

from ibnn.nn import Conv1d, Conv2d, Conv3d, ImplicitBias, Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ImplicitBias", "Linear"]

warnings.warn("ibnn.modules is now ibnn.nn", DeprecationWarning, stacklevel=2)
