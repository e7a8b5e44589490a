"""A trained standard network becomes an implicit-bias one with the same weights, and back."""

import copy
import dataclasses
import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ibnn._checks import check_module
from ibnn.conversion.choices import (
    Couplings,
    Lam,
    Only,
    check_coupling,
    check_lam,
    check_only,
    chooser,
    coupling_of,
    lam_of_layers,
)
from ibnn.conversion.layer_class import add_bias, remove_bias
from ibnn.conversion.plan import LayerPlan, Plan, resolve_plan
from ibnn.conversion.recalibrate import recalibrate_batch_norms
from ibnn.conversion.report import Conversion, Survey, layer_names, survey, why_nothing
from ibnn.nn.bounds import Bounded
from ibnn.nn.layer import ImplicitLayer
from ibnn.nn.layers import ImplicitBias
from ibnn.sigma import Sigma
from ibnn.solver import Solver

Model = TypeVar("Model", bound=nn.Module)

# said by a plan, layer by layer
_PLANNED = (
    *("lam", "only", "skip_head", "slope", "coupling"),
    *("sigma", "learn_lam", "learn_slope", "bounded"),
)
# torch's encoder reads the weights of its layers in one fused call, and then never calls them
_FUSED: dict[type[nn.Module], dict[str, Any]] = {
    nn.TransformerEncoderLayer: {"activation_relu_or_gelu": 0},
    nn.TransformerEncoder: {"use_nested_tensor": False},
}


def convert(
    model: Model,
    lam: Lam = -0.1,
    *,
    only: Only | None = None,
    skip_head: bool = True,
    plan: Plan | Mapping[str, Any] | str | None = None,
    recalibrate: Iterable[Any] | None = None,
    slope: float | Sequence[float] | Tensor = 10.0,
    coupling: Couplings = "space",
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
    weights: the paper's second mode of operation. What was done is in `.conversion` of the copy,
    its plan in `.conversion.plan`; a Hugging Face model also gets it into its config.

    Args:
        model: any module; it is not changed.
        lam: one number, numbers by name pattern (the first pattern that fits a layer counts), or a
            function of name and layer.
        only: the layers to convert, as a pattern of their names ("features.*", "*" also fits
            dots), a list of patterns, or a function of name and layer.
        skip_head: leave the classifier as it is: the layer registered last if it is a Linear or
            has a kernel of size 1, else the last Linear. (Without running the model only the order
            of registration is known.)
        plan: the plan of an earlier conversion (`ibnn.Plan`, its dict or its JSON), which is
            rebuilt; it sets `lam`, `only`, `skip_head`, `slope`, `coupling`, `sigma`, `learn_lam`,
            `learn_slope` and `bounded`, so those must be left at their defaults.
        recalibrate: batches, or (batch, target) pairs, on which the running statistics of batch
            norms are recomputed, as the plain average over these batches.
        coupling: a name is for convolutions, linear layers stay with `Uniform(-1)`; an object is
            copied for every layer. By kind of layer: `{"conv": "channels", "linear":
            ibnn.Dense(units=64)}` (also "features" for linear layers, their default). Or a
            function of name and layer that returns one of these, or None for the default.
        learn_lam: whether lam becomes a parameter; it stays as given by default.
        slope: steepness p of sigma, of every layer.
        sigma: the dendritic nonlinearity: "tanh", "hardtanh", "arctan", "erf" or an `ibnn.Sigma`.
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

    Parameters with their names, ties and flags, buffers, hooks, modes and parametrizations are
    kept, and lazy layers stay lazy; a forward hook of a converted layer sees z. Encoder layers of
    torch lose their fused inference path, which would skip the bias: theirs are the only
    outputs that can change, by rounding, when lam is 0. A layer whose weights are used in a
    function call (`F.linear(x, layer.weight)`) is converted too, but its bias is never applied: its
    `last_solve` stays None.

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
    given = {"lam": lam, "only": only, "skip_head": skip_head, **keywords}
    todo, planned = _survey(model, given, plan)
    if planned is None and not todo.report.converted:
        raise ValueError(f"nothing to convert: {why_nothing(todo.report, only)}")
    lams = {}
    if planned is None:
        lams = lam_of_layers(lam, todo.names, dict(model.named_modules()))
    converted = _copy(model)
    layers = dict(converted.named_modules())
    for name in todo.names:
        try:
            if planned is None:
                own = {**keywords, "coupling": coupling_of(coupling, name, layers[name])}
                add_bias(layers[name], {**own, "lam": lams[name]})
            else:
                add_bias(layers[name], {**keywords, **planned.layers[name].options()})
                if layers[name].lam.dtype == torch.float64:
                    layers[name].coupling.double()  # keeps the digits of what was learnt
        except (TypeError, ValueError) as error:
            place = f"layer {name!r}" if planned is None else f"plan of layer {name!r}"
            raise type(error)(f"{place}: {error}") from None
    if planned is not None:
        _put_values(planned, layers)
    hold_fused_paths(converted, ImplicitLayer)
    if recalibrate is not None:
        recalibrate_batch_norms(converted, recalibrate)
    report = dataclasses.replace(todo.report, plan=Plan.of(converted))
    converted.conversion = report  # type: ignore[assignment]
    _write_config(converted, report.plan)
    logging.getLogger("ibnn").info(
        "converted %d layers, skipped %d, could not reach %d",
        *map(len, (report.converted, report.skipped, report.unreached)),
    )
    return converted


def conversion_report(
    model: nn.Module,
    lam: Lam = -0.1,
    *,
    only: Only | None = None,
    skip_head: bool = True,
    plan: Plan | Mapping[str, Any] | str | None = None,
    slope: float | Sequence[float] | Tensor = 10.0,
    coupling: Couplings = "space",
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

    Args:
        model: any module.
        lam: as in `convert`, which explains all of these.
        only: the layers to convert.
        skip_head: leave the classifier.
        plan: the plan of an earlier conversion.
        slope: steepness p of sigma.
        coupling: weights between the units of a row.
        sigma: the dendritic nonlinearity.
        learn_lam: whether lam becomes a parameter.
        learn_slope: whether slope is a parameter.
        bounded: limits of a learnt lam.
        solver: how z is found.
        adjoint: how gradients are computed.
        engine: the engine to use.
        atol: absolute error allowed in z.
        rtol: error allowed in z relative to |y|.
        max_steps: largest number of solver steps.
        on_failure: what happens to rows that did not converge.
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
    given = {"lam": lam, "only": only, "skip_head": skip_head, **keywords}
    return _survey(model, given, plan)[0].report


def standard(model: nn.Module) -> nn.Module:
    """A copy of `model` with every implicit bias removed: `ibnn.Conv2d` becomes `nn.Conv2d`, and
    `ImplicitBias` becomes `nn.Identity`. Without any it is a plain copy.

    Examples:
        >>> standard(convert(nn.Linear(4, 3), skip_head=False))
        Linear(in_features=4, out_features=3, bias=True)

    Args:
        model: any module; it is not changed.
    """
    check_module(model)
    plain = _copy(model)
    for module in list(plain.modules()):
        if isinstance(module, ImplicitLayer):
            remove_bias(module)
        vars(module).update(vars(module).pop("_fused_before_conversion", {}))
        if isinstance(vars(module).get("conversion"), Conversion):
            del module.conversion
    _write_config(plain, None)
    return plain


def _check_options(coupling: Any, **others: Any) -> dict[str, Any]:
    check_coupling(coupling)
    # has the checks of all the rest, but on the meta device those of lam, which each layer has
    ImplicitBias(**others, device="meta")
    return {"coupling": coupling, **others}


def _survey(model: Any, given: Mapping[str, Any], plan: Any) -> tuple[Survey, Plan | None]:
    """What there is to convert, by the arguments or by the plan."""
    check_module(model)
    if not isinstance(getattr(model, "conversion", None), Conversion | None):
        raise ValueError("model has an attribute 'conversion' of its own, where the report goes")
    if plan is None:
        if not isinstance(given["skip_head"], bool):
            raise TypeError(f"skip_head must be True or False, got {given['skip_head']!r}")
        check_lam(given["lam"])
        only = given["only"]
        todo = survey(model, chooser(only), given["skip_head"])
        if todo.report.converted:
            check_only(only, layer_names(model, todo.report))
        return todo, None
    defaults = inspect.signature(convert).parameters
    twice = [n for n in _PLANNED if not _same(given[n], defaults[n].default)]
    if twice:
        default = defaults[twice[0]].default
        raise ValueError(
            f"plan sets {twice[0]} of every layer: leave {twice[0]} out, or at its default "
            f"{default!r}"
        )
    planned = resolve_plan(plan)
    todo = survey(model, lambda name, layer: name in planned.layers, False, "not in the plan")
    _check_fit(planned, model, todo)
    return todo, planned


def _same(value: Any, default: Any) -> bool:
    """Whether an argument has the value of its default, written out or not; tensors and lists of
    values never have."""
    return value is default or (isinstance(value, Real | str) and value == default)


def _check_fit(plan: Plan, model: nn.Module, todo: Survey) -> None:
    layers = dict(model.named_modules())
    for name, layer_plan in plan.layers.items():
        why = None
        layer = layers.get(name)
        if layer is None:
            why = "the model has no such layer"
        elif isinstance(layer, ImplicitLayer):
            why = _difference(layer_plan, LayerPlan.of(layer))
        elif name not in todo.names:
            why = todo.report.unreached.get(name, f"a {type(layer).__name__} cannot be converted")
        if why is not None:
            raise ValueError(f"plan does not fit the model: layer {name!r}: {why}")


def _difference(plan: LayerPlan, now: LayerPlan) -> str | None:
    """How a layer that is implicit already differs from its plan, learnt values aside."""
    learnt = {"lam", *(["slope"] if plan.learn_slope else [])}
    for name in (field.name for field in dataclasses.fields(plan)):
        wanted, found = getattr(plan, name), getattr(now, name)
        if name == "coupling":
            values = {"std", "weight"} if wanted.get("learnable") else set()
            wanted, found = ({k: c[k] for k in c if k not in values} for c in (wanted, found))
        if name not in learnt and wanted != found:
            return f"it is implicit with {name}={found}, planned is {wanted}"
    return None


@torch.no_grad()
def _put_values(plan: Plan, layers: Mapping[str, nn.Module]) -> None:
    """Values of layers that were implicit before; the new ones have theirs."""
    for name, layer_plan in plan.layers.items():
        layer: Any = layers[name]
        for value in ("lam", "slope"):
            tensor = getattr(layer, value)
            # where the layer is: as_tensor moves to torch's default device
            planned: Any = getattr(layer_plan, value)
            layer_value = torch.as_tensor(planned, dtype=torch.float64, device=tensor.device)
            if tensor.shape != layer_value.shape:
                raise ValueError(
                    f"plan does not fit the model: layer {name!r} has {value} of shape "
                    f"{tuple(tensor.shape)}, planned is {tuple(layer_value.shape)}"
                )
            tensor.copy_(layer_value)


def _write_config(model: Any, plan: Plan | None) -> None:
    """The plan travels in the config of a Hugging Face model, which `save_pretrained` writes."""
    config: Any = getattr(model, "config", None)
    if not hasattr(model, "save_pretrained") or not hasattr(config, "to_dict"):
        return
    if plan is not None:
        config.ibnn = plan.to_dict()
    elif hasattr(config, "ibnn"):
        del config.ibnn


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


def hold_fused_paths(model: nn.Module, called: type[nn.Module]) -> None:
    """Sends encoders that hold a module of the kind `called` down the path that calls it;
    `standard` undoes it."""
    for module in model.modules():
        for kind, attributes in _FUSED.items():
            if isinstance(module, kind) and any(isinstance(m, called) for m in module.modules()):
                before = {name: vars(module)[name] for name in attributes if name in vars(module)}
                vars(module).setdefault("_fused_before_conversion", before)
                vars(module).update({name: attributes[name] for name in before})
