"""The layers: torch's own, with the implicit bias added after their affine map."""

from ibnn.nn.layers import Conv1d, Conv2d, Conv3d, ImplicitBias, Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ImplicitBias", "Linear"]
