"""A trained standard network becomes an implicit-bias one with the same weights, and back."""

import copy
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from ibnn.conversion.layer_class import add_bias, remove_bias
from ibnn.conversion.recalibrate import recalibrate_batch_norms
from ibnn.conversion.report import Conversion, plan, why_nothing
from ibnn.coupling import Coupling
from ibnn.nn.bounds import Bounded
from ibnn.nn.layer import ImplicitLayer
from ibnn.nn.layers import ImplicitBias
from ibnn.sigma import Sigma
from ibnn.solver import Solver

Model = TypeVar("Model", bound=nn.Module)
Choice = str | Iterable[str] | Callable[[str, nn.Module], bool]

_COUPLINGS = ("space", "channels", "layer")
# torch's encoder reads the weights of its layers in one fused call, and then never calls them
_FUSED: dict[type[nn.Module], dict[str, Any]] = {
    nn.TransformerEncoderLayer: {"activation_relu_or_gelu": 0},
    nn.TransformerEncoder: {"use_nested_tensor": False},
}


def convert(
    model: Model,
    lam: float | Mapping[str, float] = -0.1,
    *,
    only: Choice | None = None,
    skip_head: bool = True,
    recalibrate: Iterable[Any] | None = None,
    slope: float | Sequence[float] | Tensor = 10.0,
    coupling: str | Coupling = "space",
    sigma: str | Sigma = "tanh",
    learn_lam: bool = False,
    learn_slope: bool = False,
    bounded: Bounded = True,
    solver: str | Solver = "newton",
    adjoint: str = "implicit",
    engine: str | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_steps: int | None = None,
    on_failure: str = "warn",
) -> Model:
    """A copy of `model` whose linear layers and convolutions have an implicit bias, with the same
    weights: the paper's second mode of operation. What was done is in `.conversion` of the copy.

    Args:
        lam: one number, or numbers by name pattern (the first pattern that fits a layer counts).
        only: the layers to convert, as a pattern of their names ("features.*", "*" also fits
            dots), a list of patterns, or a function of name and layer.
        skip_head: leave the classifier: the layer registered last if it is a Linear or has a
            kernel of size 1, else the last Linear. Registration is all that can be known without
            running.
        recalibrate: batches, or (batch, target) pairs, on which the running statistics of batch
            norms are computed anew: each the plain average over these batches.
        coupling: a name is for convolutions, linear layers stay with `Uniform(-1)`; an object is
            copied for every layer.
        learn_lam: whether lam becomes a parameter; it stays as given by default.
        slope: steepness p of sigma, of every layer.
        sigma: the dendritic nonlinearity: "tanh", "hardtanh", "arctan", "erf" or an `ibnn.Sigma`.
        learn_slope: whether slope is a parameter.
        bounded: limits of a learnt lam, see `ibnn.ImplicitBias`.
        solver: how z is found: "newton", "gradient", "picard", "anderson", "broyden", "lite" or a
            solver object.
        adjoint: how gradients come back: "implicit", "unrolled" or "jfb".
        engine: "native", "portable", ...: demands one; default: the fastest that serves.
        atol: absolute error allowed in z.
        rtol: error allowed in z relative to |y|.
        max_steps: steps of the solver at most.
        on_failure: rows that did not converge "raise", "warn" (once per layer) or are "ignore"d.

    Parameters with their names, ties and flags, buffers, hooks, modes and parametrizations are
    kept; a forward hook of a converted layer sees z. Encoder layers of torch lose their fused
    inference path, which would pass the bias by: theirs are the only outputs that can change, by
    rounding, when lam is 0. A layer whose weights are read by a function call (`F.linear(x,
    layer.weight)`) cannot be told from one that is called: its `last_solve` stays None.

    Examples:
        >>> model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 10))
        >>> print(convert(model, lam=-0.1).conversion)
        converted 1: '0'
        skipped '3': classification head
    """
    keywords = _check_options(
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
    )
    report, lams = plan(model, lam, only, skip_head)
    if not report.converted:
        raise ValueError(f"nothing to convert: {why_nothing(report, only)}")
    converted = _copy(model)
    layers = dict(converted.named_modules())
    for name, value in lams.items():
        layer = layers[name]
        try:
            add_bias(layer, {**_options_for(layer, keywords), "lam": value})
        except (TypeError, ValueError) as error:
            raise type(error)(f"layer {name!r}: {error}") from None
    for module in converted.modules():
        _hold_fused_path(module)
    if recalibrate is not None:
        recalibrate_batch_norms(converted, recalibrate)
    converted.conversion = report  # type: ignore[assignment]
    logging.getLogger("ibnn").info(
        "converted %d layers, skipped %d, could not reach %d",
        *map(len, (report.converted, report.skipped, report.unreached)),
    )
    return converted


def conversion_report(
    model: nn.Module,
    lam: float | Mapping[str, float] = -0.1,
    *,
    only: Choice | None = None,
    skip_head: bool = True,
    slope: float | Sequence[float] | Tensor = 10.0,
    coupling: str | Coupling = "space",
    sigma: str | Sigma = "tanh",
    learn_lam: bool = False,
    learn_slope: bool = False,
    bounded: Bounded = True,
    solver: str | Solver = "newton",
    adjoint: str = "implicit",
    engine: str | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_steps: int | None = None,
    on_failure: str = "warn",
) -> Conversion:
    """What `convert` would do with the same arguments; nothing is copied or changed.

    Examples:
        >>> print(conversion_report(nn.Sequential(nn.GRU(4, 4), nn.Linear(4, 2)), skip_head=False))
        converted 1: '1'
        not reached '0': GRU multiplies by its recurrent weights itself
    """
    _check_options(
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
    )
    return plan(model, lam, only, skip_head)[0]


def standard(model: nn.Module) -> nn.Module:
    """A copy of `model` with every implicit bias removed: `ibnn.Conv2d` becomes `nn.Conv2d`, and
    `ImplicitBias` becomes `nn.Identity`. Without any it is a plain copy.

    Examples:
        >>> standard(convert(nn.Linear(4, 3), skip_head=False))
        Linear(in_features=4, out_features=3, bias=True)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {model!r}")
    plain = _copy(model)
    for module in list(plain.modules()):
        if isinstance(module, ImplicitLayer):
            remove_bias(module)
        vars(module).update(vars(module).pop("_fused_before_conversion", {}))
        if isinstance(vars(module).get("conversion"), Conversion):
            del module.conversion
    return plain


def _check_options(coupling: str | Coupling, **others: Any) -> dict[str, Any]:
    if not isinstance(coupling, Coupling) and coupling not in _COUPLINGS:
        raise ValueError(
            f"coupling={coupling!r} is not known; expected one of {_COUPLINGS} or a coupling"
        )
    ImplicitBias(**others)  # has the checks of all the rest
    return {"coupling": coupling, **others}


def _options_for(layer: nn.Module, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options one layer takes, with a coupling of its own."""
    own = dict(options)
    coupling = own.get("coupling")
    if isinstance(coupling, Coupling):
        if isinstance(layer, nn.Linear) and coupling.dims != (-1,):
            raise ValueError(
                f"coupling {coupling} is over dims {coupling.dims}, but the units of a Linear are "
                "its last dim; choose layers by only"
            )
        own["coupling"] = copy.deepcopy(coupling).train(layer.training)
    elif isinstance(layer, nn.Linear):
        own.pop("coupling", None)
    return own


def _copy(model: Model) -> Model:
    # weights recomputed by a hook before every call (pruning, the older norms) are left over from
    # the last one, with a history that torch refuses to copy
    leftovers = {
        id(value): value.detach().clone()
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    try:
        return copy.deepcopy(model, leftovers)
    except Exception as error:
        raise ValueError(f"model cannot be copied by copy.deepcopy: {error}") from error


def _hold_fused_path(module: nn.Module) -> None:
    """Sends an encoder with implicit layers down the path that calls them; `standard` undoes it."""
    for kind, attributes in _FUSED.items():
        if isinstance(module, kind) and any(isinstance(m, ImplicitLayer) for m in module.modules()):
            before = {name: vars(module)[name] for name in attributes if name in vars(module)}
            vars(module).setdefault("_fused_before_conversion", before)
            vars(module).update({name: attributes[name] for name in before})
