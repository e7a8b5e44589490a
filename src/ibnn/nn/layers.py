"""The layers: torch's own, with the implicit bias added after their affine map.

Each has its parent's signature and then the keywords of the bias. The activation stays outside:
`nn.Sequential(ibnn.Conv2d(3, 8, 5), nn.ReLU())`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ibnn.coupling import Coupling
from ibnn.nn.bounds import Bounded
from ibnn.nn.layer import ImplicitLayer, is_symbolic
from ibnn.sigma import Sigma
from ibnn.solver import Solver

Values = float | Sequence[float] | Tensor


class ImplicitBias(ImplicitLayer):
    """The map F: y -> z alone, to follow any op.

    Examples:
        >>> ImplicitBias(lam=-0.2, learn_lam=False)(torch.tensor([-0.1, 0.05, 0.1]))
        tensor([-0.0256,  0.0288,  0.0468])

    Args:
        lam: strength of the coupling, the initial value if it is learnt; a number, or one per
            channel (the dim before the units). Below zero units are pulled together.
        slope: steepness p of sigma, a number or one per channel.
        coupling: weights between the units of a row (default `ibnn.Uniform(-1)`).
        sigma: the dendritic nonlinearity: "tanh", "hardtanh", "arctan", "erf" or an `ibnn.Sigma`.
        learn_lam: whether lam is a parameter.
        learn_slope: whether slope is a parameter.
        bounded: limits of a learnt lam. True: at most 0.95 of the threshold of uniqueness;
            (low, high): also within these, e.g. (-1, 0) keeps it negative; False: none.
        solver: how z is found: "newton", "gradient", "picard", "anderson", "broyden", "lite" or a
            solver object.
        adjoint: how gradients are computed: "implicit", "unrolled" or "jfb".
        engine: "native", "portable", ...: use this one; default: the fastest that applies.
        atol: absolute error allowed in z.
        rtol: error allowed in z relative to |y|.
        max_steps: largest number of solver steps.
        on_failure: for rows that did not converge "raise", "warn" (once per layer) or "ignore".
        device: of lam and slope.
        dtype: of lam and slope.
    """

    def __init__(
        self,
        lam: Values = 0.0,
        slope: Values = 10.0,
        *,
        coupling: Coupling | None = None,
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
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._init_implicit_bias(
            None,
            None,
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

    def forward(self, y: Tensor) -> Tensor:
        return self._symbolic(y) if is_symbolic(y) else self.add_implicit_bias(y)

    def extra_repr(self) -> str:
        return self.bias_repr()


class Linear(ImplicitLayer, nn.Linear):
    """`torch.nn.Linear` followed by the implicit bias over its output units.

    Examples:
        >>> Linear(4, 3, lam=-0.1)
        Linear(in_features=4, out_features=3, bias=True, lam=-0.1 (learnt), slope=10, ...)

    Args:
        in_features: as in `torch.nn.Linear`.
        out_features: as in `torch.nn.Linear`; the units of a row.
        bias: as in `torch.nn.Linear`.
        device: of all parameters.
        dtype: of all parameters.
        lam: strength of the coupling, the initial value if it is learnt.
        slope: steepness p of sigma.
        coupling: weights between the units of a row (default `ibnn.Uniform(-1)`).
        sigma: the dendritic nonlinearity: "tanh", "hardtanh", "arctan", "erf" or an `ibnn.Sigma`.
        learn_lam: whether lam is a parameter.
        learn_slope: whether slope is a parameter.
        bounded: limits of a learnt lam, see `ibnn.ImplicitBias`.
        solver: how z is found: "newton", "gradient", "picard", "anderson", "broyden", "lite" or a
            solver object.
        adjoint: how gradients are computed: "implicit", "unrolled" or "jfb".
        engine: "native", "portable", ...: use this one; default: the fastest that applies.
        atol: absolute error allowed in z.
        rtol: error allowed in z relative to |y|.
        max_steps: largest number of solver steps.
        on_failure: for rows that did not converge "raise", "warn" (once per layer) or "ignore".
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        lam: Values = 0.0,
        slope: Values = 10.0,
        coupling: Coupling | None = None,
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
        nn.Linear.__init__(self, in_features, out_features, bias, device, dtype)
        self._init_implicit_bias(
            1,
            None,
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

    def forward(self, input: Tensor) -> Tensor:
        if is_symbolic(input):
            return self._symbolic(input)
        return self._follow_own_map(nn.Linear.forward(self, input))

    def extra_repr(self) -> str:
        return f"{nn.Linear.extra_repr(self)}, {self.bias_repr()}"


class _Conv(ImplicitLayer, nn.modules.conv._ConvNd):
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
        """The arguments of every convolution.

        Args:
            in_channels: channels of the input; up to `dtype` everything is as in torch's layer.
            out_channels: channels of the output.
            kernel_size: a number, or one per dim.
            stride: a number, or one per dim.
            padding: a number, one per dim, "same" or "valid".
            dilation: a number, or one per dim.
            groups: number of groups of channels that are convolved separately.
            bias: whether each output channel has one.
            padding_mode: "zeros", "reflect", "replicate" or "circular".
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

    def forward(self, input: Tensor) -> Tensor:
        if is_symbolic(input):
            return self._symbolic(input)
        return self._follow_own_map(super().forward(input))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.bias_repr()}"


class Conv1d(_Conv, nn.Conv1d):
    """`torch.nn.Conv1d` followed by the implicit bias.

    Examples:
        >>> layer = Conv1d(4, 8, kernel_size=3, padding=1, lam=-0.1)
        >>> layer(torch.rand(2, 4, 50)).shape
        torch.Size([2, 8, 50])
    """

    spatial_dims = 1


class Conv2d(_Conv, nn.Conv2d):
    """`torch.nn.Conv2d` followed by the implicit bias.

    Examples:
        >>> layer = Conv2d(3, 8, kernel_size=5, padding="same", lam=0.05)
        >>> layer(torch.rand(2, 3, 16, 16)).shape
        torch.Size([2, 8, 16, 16])
    """

    spatial_dims = 2


class Conv3d(_Conv, nn.Conv3d):
    """`torch.nn.Conv3d` followed by the implicit bias.

    Examples:
        >>> layer = Conv3d(1, 4, kernel_size=3, coupling="channels", lam=0.05)
        >>> layer(torch.rand(2, 1, 6, 6, 6)).shape
        torch.Size([2, 4, 4, 4, 4])
    """

    spatial_dims = 3
