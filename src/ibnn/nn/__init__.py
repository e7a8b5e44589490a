"""The layers: torch's own, with the implicit bias added after their affine map."""

from ibnn.nn.layers import Conv1d, Conv2d, Conv3d, ImplicitBias, Linear
from ibnn.nn.transposed import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "ImplicitBias",
    "Linear",
]
