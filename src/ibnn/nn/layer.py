"""What makes a module an implicit-bias layer: lam, slope, coupling, and the map F: y -> z."""

import copy
import itertools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from ibnn import solver as solvers
from ibnn._checks import check_flag, shown
from ibnn._core.deferred_failures import is_asynchronous
from ibnn._core.options import SolveOptions
from ibnn._core.solution import LastSolve, Monitor, monitors
from ibnn._core.solve import value_of_rows
from ibnn._registry import after_registration
from ibnn._tensors import is_plain
from ibnn.coupling import Coupling
from ibnn.functional import solve_options
from ibnn.nn import record
from ibnn.nn.bounds import Bounded, Limits, check_lam, checked_bounded, keep_above, limits_of
from ibnn.nn.choices import number_or_channels, resolve_coupling, short
from ibnn.sigma import Sigma
from ibnn.sigma import resolve as resolve_sigma
from ibnn.solver import Lite, Solver

_SMALLEST_SLOPE = 1e-3
# how a layer solves: may be changed at any time, see ImplicitLayer.__setattr__
_HOW = frozenset(
    (
        *("coupling", "sigma", "bounded", "solver", "adjoint", "engine"),
        *("atol", "rtol", "max_steps", "on_failure"),
    )
)
_READ = {"sigma": resolve_sigma, "solver": solvers.resolve, "bounded": checked_bounded}


class ImplicitLayer(nn.Module):
    """Base class of every layer with an implicit bias.

    The bias acts where the layer is called. In evaluation `nn.TransformerEncoderLayer` only reads
    the weights of its `linear1` and `linear2`: if you put an implicit layer there by hand, set the
    encoder layer's `activation_relu_or_gelu = 0`, as `ibnn.convert` does.

    Attributes:
        lam: strength of the coupling as stored; `effective_lam` is the value that is used.
        slope: steepness of sigma as stored; `effective_slope` is the value that is used.
        coupling: weights between the units of a row.
        last_solve: convergence, residual and steps of the latest forward pass; None with
            `solver="lite"`, whose step is not judged.
        keeps_memory_format: whether z has the memory format of y, as other layers have it (True);
            False makes it contiguous, which saves two copies of channels-last maps where what
            follows is contiguous.

    Examples:
        >>> import ibnn
        >>> model = nn.Sequential(ibnn.Linear(4, 8, lam=-0.1), nn.ReLU(), nn.Linear(8, 2))
        >>> layers = [layer for layer in model.modules() if isinstance(layer, ImplicitLayer)]
        >>> [round(layer.effective_lam.item(), 3) for layer in layers]
        [-0.1]
    """

    lam: Tensor
    slope: Tensor
    coupling: Coupling
    keeps_memory_format: bool = True

    def _init_implicit_bias(
        self,
        channels: int | None,
        spatial_dims: int | None,
        *,
        lam: float | Sequence[float] | Tensor = 0.0,
        slope: float | Sequence[float] | Tensor = 10.0,
        coupling: str | Coupling | None = None,
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
        """What every constructor ends with; `channels` is how many values lam may have, and
        `spatial_dims` what the coupling names of a convolution mean."""
        self._spatial_dims, self._channels = spatial_dims, channels
        self.sigma = resolve_sigma(sigma)
        check_flag("learn_lam", learn_lam)
        check_flag("learn_slope", learn_slope)
        self.learn_lam, self.learn_slope = learn_lam, learn_slope
        self.bounded = bounded = checked_bounded(bounded)
        self.solver = solvers.resolve(solver)
        self.adjoint, self.engine = adjoint, engine
        self.atol, self.rtol, self.max_steps = atol, rtol, max_steps
        self.on_failure = on_failure
        device = torch.get_default_device() if device is None else torch.device(device)
        self._set_coupling(coupling, device)
        dtype = dtype or torch.get_default_dtype()
        lam_value = number_or_channels("lam", lam, self._lam_count(), dtype)
        slope_value = number_or_channels("slope", slope, self._lam_count(), dtype)
        if not bool((slope_value > 0).all()):
            raise ValueError(f"slope must be positive, got {shown(slope)}")
        # what the constructor was given, for layers that are made on the meta device
        self._first_values = {"lam": lam_value, "slope": slope_value}
        lam_value, slope_value = lam_value.to(device), slope_value.to(device)
        if learn_lam:
            self.lam = nn.Parameter(lam_value)
        else:
            self.register_buffer("lam", lam_value)
        if learn_slope:
            self.slope = nn.Parameter(slope_value)
        else:
            self.register_buffer("slope", slope_value, persistent=False)
        self._monitor = Monitor()
        self._write_options()
        if not lam_value.is_meta:
            slope_value = slope_value.detach()
            check_lam(lam_value, slope_value, self.coupling, self.sigma, learn_lam, bounded)

    def _set_coupling(self, coupling: "str | Coupling | None", device: torch.device) -> None:
        name = coupling if isinstance(coupling, str) else None
        resolved = resolve_coupling(coupling, self._spatial_dims)
        if any(dim >= 0 for dim in resolved.dims):
            raise ValueError(
                f"coupling dims={resolved.dims} must count from the end in a layer, "
                "where the first dim may be the batch"
            )
        units = None if self._spatial_dims is None else self._spatial_dims + 1
        if units is not None and min(resolved.dims) < -units:
            raise ValueError(
                f"coupling dims={resolved.dims} reach beyond the {units} dims of the units of a "
                f"{type(self).__name__}: it would join examples of a batch"
            )
        if any(True for _ in resolved.parameters()) or any(True for _ in resolved.buffers()):
            self.__dict__.pop("coupling", None)
            super().__setattr__("coupling", _on_device(resolved, device))
        else:
            # nothing to save or move: kept out of the tree of modules, so that it stays readable
            self._modules.pop("coupling", None)
            object.__setattr__(self, "coupling", resolved)
        object.__setattr__(self, "_coupling_name", name)

    def _lam_count(self) -> int | None:
        """How many values lam and slope may have; None is any number."""
        spatial = self._spatial_dims
        if spatial is not None and self.coupling.dims != tuple(range(-spatial, 0)):
            return 1  # units of several channels talk to each other: one lam, or no energy
        return self._channels

    def _write_options(self) -> None:
        """The options of this layer's solves, made and checked once."""
        if self.learn_lam and self.bounded and not self.sigma.certified:
            raise ValueError(
                f"sigma {self.sigma.name} is not certified: learn lam with bounded=False"
            )
        self._options_of = self._monitor.number
        self._known_limits: tuple[Tensor, int, Bounded, Limits] | None = None
        self._monitor.layer = weakref.ref(self)
        self._options: SolveOptions = solve_options(
            self.coupling,
            self.sigma,
            self.solver,
            self.adjoint,
            self.engine,
            self.atol,
            self.rtol,
            self.max_steps,
            self.on_failure,
            self._monitor.number,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """A change of how the layer solves acts from the next forward on, or is refused."""
        if name in ("weight", "bias"):
            record.refuse_fusion()
        if name in ("learn_lam", "learn_slope") and "_options" in self.__dict__:
            own = name.removeprefix("learn_")
            raise AttributeError(
                f"{name} is chosen when the layer is made: {own} is a parameter or not, and has "
                f"bounds or not; layer.{own}.requires_grad_(False) keeps a parameter as it is"
            )
        if name in ("lam", "slope") and isinstance(value, nn.Parameter):
            self._check_learnt(name)
        if name not in _HOW or "_options" not in self.__dict__:
            return super().__setattr__(name, value)
        before, coupling_name = getattr(self, name), self._coupling_name
        self._set_choice(name, value)
        try:
            if name == "coupling" and self._lam_count() == 1:
                for own, tensor in (("lam", self.lam), ("slope", self.slope)):
                    if tensor.numel() > 1:
                        raise ValueError(
                            f"coupling {value!r} joins channels, which needs one {own}; "
                            f"the layer has {tensor.numel()}"
                        )
            self._write_options()
        except (TypeError, ValueError):
            self._set_choice(name, before)
            object.__setattr__(self, "_coupling_name", coupling_name)
            raise

    def _check_learnt(self, name: str) -> None:
        if not getattr(self, f"learn_{name}"):
            raise AttributeError(
                f"{name} of this layer is fixed: a parameter in its place would be trained without "
                f"bounds; assign a tensor, or make the layer with learn_{name}=True"
            )

    def _set_choice(self, name: str, value: Any) -> None:
        if name == "coupling":
            return self._set_coupling(value, self.lam.device)
        read: Any = _READ.get(name)
        return super().__setattr__(name, read(value) if read else value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._write_options()  # a copy has a monitor of its own

    def __prepare_scriptable__(self) -> Any:
        raise RuntimeError(
            f"torch.jit.script cannot compile {type(self).__name__}: its solve is an operator of "
            "torch.export; use torch.compile or torch.export"
        )

    @property
    def effective_slope(self) -> Tensor:
        """The slope that is used: a learnt one is kept positive."""
        return keep_above(self.slope, _SMALLEST_SLOPE) if self.learn_slope else self.slope

    @property
    def effective_lam(self) -> Tensor:
        """The lam that is used: a learnt one is kept within its bounds, by default below 0.95 of
        the threshold of uniqueness."""
        return self._acting_lam(self.effective_slope)

    def _acting_lam(self, slope: Tensor) -> Tensor:
        lam = self.lam
        if not self.learn_lam or self.bounded is False:
            return lam
        return self._limits(slope).keep(lam)

    def _limits(self, slope: Tensor) -> Limits:
        bounded, known = self.bounded, self._known_limits
        learnt = self.learn_slope or slope.requires_grad or "coupling" in self._modules
        if learnt or not is_plain() or slope.is_inference():
            return limits_of(bounded, slope, self.coupling, self.sigma)
        # the same at every call until something is changed: worth keeping, for short rows
        if known and known[0] is slope and known[1:3] == (slope._version, bounded):
            return known[3]
        limits = limits_of(bounded, slope, self.coupling, self.sigma)
        high = limits.high
        if limits.low is None and high is not None and not is_asynchronous(high):
            limits = replace(limits, single=float(high.min()))
        self._known_limits = slope, slope._version, bounded, limits
        return limits

    @property
    def last_solve(self) -> LastSolve | None:
        """Fraction of rows converged, worst residual and steps of the latest forward pass. None
        with `solver="lite"`: to judge its step would take as long as the step."""
        return None if isinstance(self.solver, Lite) else self._monitor.last_solve

    def add_implicit_bias(self, y: Tensor) -> Tensor:
        """F: y -> z.

        Args:
            y: the output of the affine map.
        """
        return self._solve(y, owned=False)

    def _follow_own_map(self, y: Tensor) -> Tensor:
        """F of what the layer's own map gave. Nobody reads y again, so the backward pass may keep
        what it needs in its memory; unless `add_implicit_bias` was overridden, which may read y."""
        method = self.add_implicit_bias
        if getattr(method, "__func__", None) is ImplicitLayer.add_implicit_bias:
            return self._solve(y, owned=True)
        return method(y)

    def _solve(self, y: Tensor, owned: bool) -> Tensor:
        # asked before lam, which `layer.to(torch.complex64)` makes complex too
        if isinstance(y, Tensor) and y.is_complex():
            raise TypeError(f"units must be real, they are compared; got {y.dtype}")
        if self._options_of != self._monitor.number:
            self._write_options()  # torch copies parametrized layers without __setstate__
        if not self.keeps_memory_format:
            y = y.contiguous()
        slope = self.effective_slope
        lam = self._acting_lam(slope)
        return value_of_rows(y, lam, slope, self.coupling, None, self._options, owned)

    def _symbolic(self, input: Any, *args: Any, **kwargs: Any) -> Any:
        """What torch.fx records in place of a forward pass: the call of this layer as a whole."""
        tracer = input.tracer
        path = tracer.path_of_module(self)
        return tracer.create_proxy("call_module", path, (input, *args), kwargs)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        was_meta = self.slope.is_meta
        super()._apply(fn, recurse)
        if was_meta and not self.slope.is_meta:
            # to_empty: slope is in no checkpoint, and lam not in a standard one
            with torch.no_grad():
                for part, name, value in self._values_given():
                    getattr(part, name).copy_(value)
        return self

    def _values_given(self) -> Iterator[tuple[nn.Module, str, Tensor]]:
        """What the layer and its coupling were made with: a tensor of a module, and its value."""
        for part in (self, self.coupling):
            for name, value in getattr(part, "_first_values", {}).items():
                yield part, name, value

    @property
    def implicit_bias(self) -> Tensor:
        """What was chosen, as checkpoints hold it (JSON in bytes). torch.distributed.checkpoint
        asks the layer for every key of its state dict."""
        return record.write(self)

    @implicit_bias.setter
    def implicit_bias(self, value: Tensor) -> None:
        """Has no effect: torch.func.functional_call sets every key of a state dict, and later sets
        the old value again."""
        if not isinstance(value, Tensor):
            raise AttributeError(
                f"implicit_bias cannot be set to {value!r}: it describes the layer"
            )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + record.KEY] = self.implicit_bias

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        stored = state_dict.pop(prefix + record.KEY, None)
        if stored is not None:
            error_msgs += record.differences(self, stored, prefix)
        before = len(missing_keys)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )
        missing_keys[before:] = record.explained(missing_keys[before:], prefix)
        if not self.lam.is_meta:  # with assign=True, what is in no checkpoint still may be
            for part, name, value in self._values_given():
                empty = part._buffers.get(name)
                if empty is not None and empty.is_meta:
                    setattr(part, name, value.to(self.lam.device, empty.dtype))

    def bias_repr(self) -> str:
        lam = f"lam={short(self.lam)}"
        if not self.lam.is_meta and self.learn_lam:
            acting = short(self.effective_lam)
            lam += "" if acting == short(self.lam) else f" acting as {acting}"
        parts = [
            lam + (" (learnt)" if self.learn_lam else ""),
            f"slope={short(self.slope)}" + (" (learnt)" if self.learn_slope else ""),
            f"coupling={self._coupling_name or self.coupling}",
            f"sigma={self.sigma}",
        ]
        if isinstance(self.bounded, tuple) and self.learn_lam:
            parts.insert(1, f"bounded={self.bounded}")
        return ", ".join(parts)


def _on_device(coupling: Coupling, device: torch.device) -> Coupling:
    """The coupling itself where it is there already, so that layers can share it; else a copy,
    since another layer may have it."""
    here = torch.empty(0, device=device).device  # "cuda" is "cuda:0"
    tensors = itertools.chain(coupling.parameters(), coupling.buffers())
    if all(tensor.device == here for tensor in tensors):
        return coupling
    return copy.deepcopy(coupling).to(device)


@after_registration
def _rewrite_options() -> None:
    """Layers keep the parts they have, whose names may mean other ones now."""
    for monitor in list(monitors.values()):
        layer = monitor.layer()
        if isinstance(layer, ImplicitLayer):
            layer._write_options()


def is_symbolic(input: Any) -> bool:
    """Whether torch.fx is recording rather than computing."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        raise RuntimeError(
            "torch.jit.trace, and the ONNX exporter that is built on it, cannot record an implicit "
            "bias; use torch.export, or trace the copy that ibnn.for_export makes"
        )
    return isinstance(input, fx.Proxy)
