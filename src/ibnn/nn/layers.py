"""The layers: torch's own, with the implicit bias added after their affine map.

Each has its parent's signature and then the keywords of `ibnn.nn.layer.BiasOptions`. The activation
stays outside: `nn.Sequential(ibnn.Conv2d(3, 8, 5), nn.ReLU())`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from ibnn.nn.layer import BiasChoices, BiasMixin, BiasOptions


class ImplicitBias(BiasMixin):
    """The map F: y -> z alone, to follow any op.

    >>> ImplicitBias(lam=-0.2, learn_lam=False)(torch.tensor([-0.1, 0.05, 0.1]))
    tensor([-0.0256,  0.0288,  0.0468])
    """

    def __init__(
        self,
        lam: float | Sequence[float] | Tensor = 0.0,
        slope: float | Sequence[float] | Tensor = 10.0,
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
        **options: Unpack[BiasChoices],
    ) -> None:
        super().__init__()
        self._add_bias(None, None, lam=lam, slope=slope, device=device, dtype=dtype, **options)

    def forward(self, y: Tensor) -> Tensor:
        return self.add_implicit_bias(y)

    def extra_repr(self) -> str:
        return self.bias_repr()


class Linear(BiasMixin, nn.Linear):
    """`torch.nn.Linear` followed by the implicit bias over its output units.

    >>> Linear(4, 3, lam=-0.1)
    Linear(in_features=4, out_features=3, bias=True, lam=-0.1 (learnt), slope=10, ...)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        **options: Unpack[BiasOptions],
    ) -> None:
        nn.Linear.__init__(self, in_features, out_features, bias, device, dtype)
        self._add_bias(1, None, device=device, dtype=dtype, **options)

    def forward(self, input: Tensor) -> Tensor:
        return self.add_implicit_bias(nn.Linear.forward(self, input))

    def extra_repr(self) -> str:
        return f"{nn.Linear.extra_repr(self)}, {self.bias_repr()}"


class _Conv(BiasMixin, nn.modules.conv._ConvNd):
    spatial_dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: torch.dtype | None = None,
        **options: Unpack[BiasOptions],
    ) -> None:
        super().__init__(  # of nn.Conv1d, 2d or 3d
            in_channels,
            out_channels,
            kernel_size,  # type: ignore[arg-type]
            stride,  # type: ignore[arg-type]
            padding,  # type: ignore[arg-type]
            dilation,  # type: ignore[arg-type]
            groups,  # type: ignore[arg-type]
            bias,  # type: ignore[arg-type]
            padding_mode,  # type: ignore[arg-type]
            device,  # type: ignore[arg-type]
            dtype,  # type: ignore[arg-type]
        )
        self._add_bias(out_channels, self.spatial_dims, device=device, dtype=dtype, **options)

    def forward(self, input: Tensor) -> Tensor:
        return self.add_implicit_bias(super().forward(input))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.bias_repr()}"


class Conv1d(_Conv, nn.Conv1d):
    """`torch.nn.Conv1d` followed by the implicit bias; coupling "space" (default: each channel on
    its own), "channels", "layer" or an object."""

    spatial_dims = 1


class Conv2d(_Conv, nn.Conv2d):
    """`torch.nn.Conv2d` followed by the implicit bias; coupling "space" (default: each channel map
    on its own), "channels" (across channels at one position), "layer" or an object.

    >>> layer = Conv2d(3, 8, kernel_size=5, padding="same", lam=0.05)
    >>> layer(torch.rand(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    spatial_dims = 2


class Conv3d(_Conv, nn.Conv3d):
    """`torch.nn.Conv3d` followed by the implicit bias; coupling as in `Conv2d`."""

    spatial_dims = 3
