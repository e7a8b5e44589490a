"""What makes a module an implicit-bias layer: lam, slope, coupling, and the map F: y -> z."""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from ibnn import solver as solvers
from ibnn._core.solution import LastSolve, Monitor
from ibnn.coupling import Coupling, Uniform
from ibnn.functional import describe, solve_described
from ibnn.nn.bounds import keep_above, keep_below
from ibnn.sigma import Sigma
from ibnn.sigma import resolve as resolve_sigma
from ibnn.solver import Solver
from ibnn.theory import uniqueness_threshold

# a learnt lam acts as at most this share of the threshold of uniqueness
SHARE_OF_THRESHOLD = 0.95
_SMALLEST_SLOPE = 1e-3
# how a layer solves: may be changed at any time, see BiasMixin.__setattr__
_HOW = frozenset(("sigma", "solver", "adjoint", "atol", "rtol", "max_steps", "on_failure"))


class BiasChoices(TypedDict, total=False):
    """How the bias acts, beside lam and slope.

    coupling: who listens to whom; sigma: the dendritic nonlinearity.
    learn_lam (default True), learn_slope: whether they are parameters.
    bounded: a learnt lam acts as at most 0.95 of the threshold of uniqueness.
    The rest is passed to `ibnn.implicit_bias`.
    """

    coupling: str | Coupling
    sigma: str | Sigma
    learn_lam: bool
    learn_slope: bool
    bounded: bool
    solver: str | Solver
    adjoint: str
    atol: float | None
    rtol: float | None
    max_steps: int | None
    on_failure: str


class BiasOptions(BiasChoices, total=False):
    """What every layer can be told beside its parent's arguments: lam and slope are numbers, or
    hold one value per channel."""

    lam: float | Sequence[float] | Tensor
    slope: float | Sequence[float] | Tensor


class BiasMixin(nn.Module):
    lam: Tensor
    slope: Tensor
    coupling: Coupling

    def _add_bias(
        self,
        channels: int | None,
        spatial_dims: int | None,
        coupling: str | Coupling | None = None,
        lam: float | Sequence[float] | Tensor = 0.0,
        slope: float | Sequence[float] | Tensor = 10.0,
        sigma: str | Sigma = "tanh",
        learn_lam: bool = True,
        learn_slope: bool = False,
        bounded: bool = True,
        solver: str | Solver = "newton",
        adjoint: str = "implicit",
        atol: float | None = None,
        rtol: float | None = None,
        max_steps: int | None = None,
        on_failure: str = "warn",
        device: Any = None,
        dtype: torch.dtype | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise TypeError(
                f"{type(self).__name__} got an unknown keyword {next(iter(unknown))!r}; beside its "
                f"parent's it takes {', '.join(BiasOptions.__annotations__)}"
            )
        self._coupling_name = coupling if isinstance(coupling, str) else None
        coupling = _resolve_coupling(coupling, spatial_dims)
        self.sigma = resolve_sigma(sigma)
        self.learn_lam, self.learn_slope, self.bounded = learn_lam, learn_slope, bounded
        self.solver = solvers.resolve(solver)
        self.adjoint = adjoint
        self.atol, self.rtol, self.max_steps = atol, rtol, max_steps
        self.on_failure = on_failure
        if learn_lam and bounded and not self.sigma.certified:
            raise ValueError(
                f"sigma {self.sigma.name} is not certified: learn lam with bounded=False"
            )
        if any(dim >= 0 for dim in coupling.dims):
            raise ValueError(
                f"coupling dims={coupling.dims} must count from the end in a layer, "
                "where the first dim may be the batch"
            )
        if spatial_dims is not None and coupling.dims != tuple(range(-spatial_dims, 0)):
            channels = 1  # units of several channels talk to each other: one lam, or no energy
        dtype = dtype or torch.get_default_dtype()
        lam_value = _number_or_channels("lam", lam, channels, dtype)
        slope_value = _number_or_channels("slope", slope, channels, dtype)
        if not bool((slope_value > 0).all()):
            raise ValueError(f"slope must be positive, got {slope!r}")
        lam_value, slope_value = lam_value.to(device), slope_value.to(device)
        if learn_lam:
            self.lam = nn.Parameter(lam_value)
        else:
            self.register_buffer("lam", lam_value)
        if learn_slope:
            self.slope = nn.Parameter(slope_value)
        else:
            self.register_buffer("slope", slope_value, persistent=False)
        if any(True for _ in coupling.parameters()) or any(True for _ in coupling.buffers()):
            self.coupling = coupling.to(device)
        else:
            # nothing to save or move: kept out of the tree of modules, so that it stays readable
            object.__setattr__(self, "coupling", coupling)
        self._monitor = Monitor()
        self._write_methods()

    def _write_methods(self) -> None:
        """Writes down, per dtype, how this layer solves; torch.compile sees a constant."""
        self._written_for = self._monitor.number
        self._methods = tuple(
            str(  # plain text: the layer itself keeps its parts alive
                describe(
                    self.coupling,
                    self.sigma,
                    self.solver,
                    self.adjoint,
                    self.atol,
                    self.rtol,
                    self.max_steps,
                    self.on_failure,
                    torch.empty(0, dtype=dtype),
                    self._monitor.number,
                )
            )
            for dtype in (torch.float32, torch.float64)
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """A change of how the layer solves acts from the next forward on, or is refused."""
        if name not in _HOW or "_methods" not in self.__dict__:
            return super().__setattr__(name, value)
        resolve: Any = {"sigma": resolve_sigma, "solver": solvers.resolve}.get(name)
        before = getattr(self, name)
        super().__setattr__(name, resolve(value) if resolve else value)
        try:
            self._write_methods()
        except (TypeError, ValueError):
            super().__setattr__(name, before)
            raise

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._write_methods()  # a copy has a monitor of its own

    @property
    def effective_slope(self) -> Tensor:
        """The slope that is used: a learnt one is kept positive."""
        return keep_above(self.slope, _SMALLEST_SLOPE) if self.learn_slope else self.slope

    @property
    def effective_lam(self) -> Tensor:
        """The lam that is used: a learnt one is kept below the threshold, unless not bounded."""
        if not (self.learn_lam and self.bounded):
            return self.lam
        threshold = uniqueness_threshold(self.effective_slope, self.coupling, self.sigma)
        return keep_below(self.lam, torch.as_tensor(threshold * SHARE_OF_THRESHOLD))

    @property
    def last_solve(self) -> LastSolve | None:
        """Converged share, worst residual and steps of the latest forward pass."""
        return self._monitor.last_solve

    def add_implicit_bias(self, y: Tensor) -> Tensor:
        """F: y -> z."""
        if self._written_for != self._monitor.number:
            self._write_methods()  # torch copies parametrized layers without __setstate__
        how = self._methods[1 if y.dtype == torch.float64 else 0]
        lam, slope = self.effective_lam, self.effective_slope
        return solve_described(y, lam, slope, self.coupling, None, how)[0]

    def bias_repr(self) -> str:
        parts = [
            f"lam={_short(self.lam)}" + (" (learnt)" if self.learn_lam else ""),
            f"slope={_short(self.slope)}" + (" (learnt)" if self.learn_slope else ""),
            f"coupling={self._coupling_name or self.coupling}",
            f"sigma={self.sigma}",
        ]
        return ", ".join(parts)


def _resolve_coupling(coupling: str | Coupling | None, spatial_dims: int | None) -> Coupling:
    """The coupling meant; names are for convolutions, which know their spatial dims."""
    if isinstance(coupling, Coupling):
        return coupling if spatial_dims is None else coupling.for_layer(spatial_dims)
    if spatial_dims is None:
        if coupling is None:
            return Uniform(-1)
        raise TypeError(f"coupling must be an ibnn coupling, got {coupling!r}")
    spatial = tuple(range(-spatial_dims, 0))
    named = {
        "space": spatial,
        "channels": (-spatial_dims - 1,),
        "layer": (-spatial_dims - 1, *spatial),
    }
    if coupling is None:
        coupling = "space"
    if coupling not in named:
        raise ValueError(
            f"coupling={coupling!r} is not known; expected one of {list(named)} or a coupling"
        )
    return Uniform(named[coupling])


def _number_or_channels(name: str, value: Any, channels: int | None, dtype: torch.dtype) -> Tensor:
    try:
        tensor = torch.as_tensor(value, dtype=dtype, device="cpu").detach().clone()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{name} must be a number or one number per channel, got {value!r}"
        ) from None
    if not bool(tensor.isfinite().all()):
        raise ValueError(f"{name} must be finite, got {value!r}")
    if tensor.ndim == 0 or (tensor.ndim == 1 and channels in (None, len(tensor))):
        return tensor
    expected = "one number"
    if channels != 1:
        expected += " or one per channel" + (f" ({channels})" if channels else "")
    raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {expected}")


def _short(value: Tensor) -> str:
    value = value.detach()
    if value.ndim == 0:
        return f"{float(value):.4g}"
    return f"[{float(value.min()):.3g} .. {float(value.max()):.3g}]"
