"""Transposed convolutions with the implicit bias added after their affine map."""

from typing import Any

import torch
from torch import Tensor, nn

from ibnn.coupling import Coupling
from ibnn.nn.bounds import Bounded
from ibnn.nn.layer import ImplicitLayer, is_symbolic
from ibnn.nn.layers import Values
from ibnn.sigma import Sigma
from ibnn.solver import Solver


class _ConvTranspose(ImplicitLayer, nn.modules.conv._ConvTransposeNd):
    spatial_dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        lam: Values = 0.0,
        slope: Values = 10.0,
        coupling: str | Coupling = "space",
        sigma: str | Sigma = "tanh",
        learn_lam: bool = True,
        learn_slope: bool = False,
        bounded: Bounded = True,
        solver: str | Solver = "newton",
        adjoint: str = "implicit",
        engine: str | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        max_steps: int | None = None,
        on_failure: str = "warn",
    ) -> None:
        """The arguments of every transposed convolution.

        Args:
            in_channels: channels of the input; up to `dtype` everything is as in torch's layer.
            out_channels: channels of the output.
            kernel_size: a number, or one per dim.
            stride: a number, or one per dim.
            padding: a number, or one per dim.
            output_padding: a number, or one per dim.
            groups: number of groups of channels that are convolved separately.
            bias: whether each output channel has one.
            dilation: a number, or one per dim.
            padding_mode: "zeros", the only one torch has here.
            device: of all parameters.
            dtype: of all parameters.
            lam: strength of the coupling, the initial value if it is learnt; a number, or with a
                coupling within channels one per channel.
            slope: steepness p of sigma, likewise.
            coupling: which units form a row: "space" (default: those of one channel), "channels"
                (all channels at one position), "layer" (all units), or a coupling object.
            sigma: the dendritic nonlinearity: "tanh", "hardtanh", "arctan", "erf" or an
                `ibnn.Sigma`.
            learn_lam: whether lam is a parameter.
            learn_slope: whether slope is a parameter.
            bounded: limits of a learnt lam, see `ibnn.ImplicitBias`.
            solver: how z is found: "newton", "gradient", "picard", "anderson", "broyden", "lite" or
                a solver object.
            adjoint: how gradients are computed: "implicit", "unrolled" or "jfb".
            engine: "native", "portable", ...: use this one; default: the fastest that applies.
            atol: absolute error allowed in z.
            rtol: error allowed in z relative to |y|.
            max_steps: largest number of solver steps.
            on_failure: for rows that did not converge "raise", "warn" (once per layer) or
                "ignore".
        """
        parent: Any = super().__init__  # of nn.ConvTranspose1d, 2d or 3d
        parent(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._init_implicit_bias(
            out_channels,
            self.spatial_dims,
            lam=lam,
            slope=slope,
            coupling=coupling,
            sigma=sigma,
            learn_lam=learn_lam,
            learn_slope=learn_slope,
            bounded=bounded,
            solver=solver,
            adjoint=adjoint,
            engine=engine,
            atol=atol,
            rtol=rtol,
            max_steps=max_steps,
            on_failure=on_failure,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        if is_symbolic(input):
            return self._symbolic(input, output_size)
        return self._follow_own_map(super().forward(input, output_size))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.bias_repr()}"


class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d` followed by the implicit bias.

    Examples:
        >>> layer = ConvTranspose1d(8, 4, kernel_size=2, stride=2, lam=-0.1)
        >>> layer(torch.rand(2, 8, 25)).shape
        torch.Size([2, 4, 50])
    """

    spatial_dims = 1


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d` followed by the implicit bias.

    Examples:
        >>> layer = ConvTranspose2d(8, 3, kernel_size=2, stride=2, lam=-0.1)
        >>> layer(torch.rand(2, 8, 5, 5), output_size=(11, 11)).shape
        torch.Size([2, 3, 11, 11])
    """

    spatial_dims = 2


class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d` followed by the implicit bias.

    Examples:
        >>> layer = ConvTranspose3d(4, 1, kernel_size=2, stride=2, lam=-0.1)
        >>> layer(torch.rand(2, 4, 3, 3, 3)).shape
        torch.Size([2, 1, 6, 6, 6])
    """

    spatial_dims = 3
