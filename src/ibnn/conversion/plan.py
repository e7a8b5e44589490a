"""The plan of a conversion: every implicit layer by name, as data that JSON can hold."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from torch import Tensor, nn

from ibnn._checks import check_module, is_number, shown
from ibnn.conversion.coupling_data import coupling_from, data_of
from ibnn.nn.bounds import Bounded, checked_bounded
from ibnn.nn.layer import ImplicitLayer

VERSION = 1

Value = float | tuple[float, ...]


@dataclass(frozen=True)
class LayerPlan:
    """The choices of one implicit layer.

    Attributes:
        coupling: `Coupling.config()`, with all that is needed to rebuild the coupling.
        sigma: name of the dendritic nonlinearity; one of your own must be registered
            (`ibnn.sigma.register`) where the plan is read.
        slope: steepness of sigma, a number or one per channel.
        lam: strength of the coupling, likewise.
        learn_lam: whether lam is a parameter.
        learn_slope: whether slope is a parameter.
        bounded: limits of a learnt lam: True, False or (low, high).
        solver: name of a solver that computes another map than the solution, as `lite` does; None
            for all that solve the equation, which are not part of a plan.

    Examples:
        >>> import ibnn
        >>> LayerPlan.of(ibnn.Linear(4, 8, lam=-0.5)).coupling
        {'kind': 'Uniform', 'dims': [-1]}
    """

    coupling: dict[str, Any]
    sigma: str
    slope: Value
    lam: Value
    learn_lam: bool
    learn_slope: bool
    bounded: Bounded
    solver: str | None = None

    @classmethod
    def of(cls, layer: ImplicitLayer) -> "LayerPlan":
        """The choices of a layer as it is now."""
        if layer.lam.is_meta:
            raise ValueError("the layer is on the meta device: give it weights before")
        return cls(
            coupling=data_of(layer.coupling),
            sigma=layer.sigma.name,
            slope=_numbers(layer.slope),
            lam=_numbers(layer.lam),
            learn_lam=layer.learn_lam,
            learn_slope=layer.learn_slope,
            bounded=layer.bounded,
            solver=layer.solver.name if layer.solver.approximate else None,
        )

    @classmethod
    def from_dict(cls, data: Any) -> "LayerPlan":
        """The inverse of `to_dict`, also after a detour through JSON."""
        expected = [field.name for field in fields(cls) if field.name != "solver"]
        if not isinstance(data, Mapping) or sorted({*data} - {"solver"}) != sorted(expected):
            raise ValueError(f"expected the keys {', '.join(expected)}, got {shown(data)}")
        if not isinstance(data["coupling"], Mapping) or not isinstance(data["sigma"], str):
            raise ValueError("coupling must be an object and sigma a name")
        for name in ("learn_lam", "learn_slope"):
            if not isinstance(data[name], bool):
                raise ValueError(f"{name} must be true or false, got {shown(data[name])}")
        solver = data.get("solver")
        if not (solver is None or isinstance(solver, str)):
            raise ValueError(f"solver must be a name, got {shown(solver)}")
        return cls(
            coupling=dict(data["coupling"]),
            sigma=data["sigma"],
            slope=_checked("slope", data["slope"]),
            lam=_checked("lam", data["lam"]),
            learn_lam=data["learn_lam"],
            learn_slope=data["learn_slope"],
            bounded=checked_bounded(data["bounded"]),
            solver=solver,
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; a solver that is no part of the plan is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def options(self) -> dict[str, Any]:
        """The keywords a layer is made with."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        same = {name: value for name, value in given.items() if value is not None}
        return {**same, "coupling": coupling_from(self.coupling)}


@dataclass(frozen=True)
class Plan:
    """Which layers of a model are implicit, and how: what `ibnn.convert(model, plan=...)` rebuilds.

    Attributes:
        layers: the choices of every implicit layer, by its name in `named_modules`.
        version: of this format.

    Examples:
        >>> import ibnn
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> plan = ibnn.convert(model, lam=-0.5).conversion.plan
        >>> again = ibnn.convert(model, plan=Plan.from_json(plan.to_json()))
        >>> again[0]
        Linear(in_features=4, out_features=8, bias=True, lam=-0.5, slope=10, ...)
    """

    layers: dict[str, LayerPlan]
    version: int = VERSION

    @classmethod
    def of(cls, model: nn.Module) -> "Plan":
        """The plan that makes a standard copy of `model` what it is now, learnt lam included."""
        check_module(model)
        found: dict[str, LayerPlan] = {}
        for name, module in model.named_modules():
            if isinstance(module, ImplicitLayer):
                try:
                    found[name] = LayerPlan.of(module)
                except ValueError as error:
                    raise ValueError(f"layer {name!r}: {error}") from None
        return cls(found)

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON can hold it."""
        return {"version": self.version, "layers": {n: p.to_dict() for n, p in self.layers.items()}}

    def to_json(self) -> str:
        """The plan as text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_dict(cls, data: Any) -> "Plan":
        """The inverse of `to_dict`, checked; one line of ValueError for what cannot be a plan."""
        if not isinstance(data, Mapping) or "version" not in data:
            raise ValueError(f"not the plan of a conversion: {shown(data)}")
        if data["version"] != VERSION:
            raise ValueError(
                f"the plan has version {data['version']!r}, this ibnn reads {VERSION}: "
                "it was written by another version"
            )
        layers = data.get("layers")
        if not isinstance(layers, Mapping):
            raise ValueError("not the plan of a conversion: it has no layers")
        found: dict[str, LayerPlan] = {}
        for name, layer in layers.items():
            try:
                found[name] = LayerPlan.from_dict(layer)
            except (TypeError, ValueError) as error:
                raise ValueError(f"plan of layer {name!r}: {error}") from None
        return cls(found)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """The inverse of `to_json`, checked."""
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"not the plan of a conversion: {error}") from None


def resolve_plan(plan: "Plan | Mapping[str, Any] | str") -> Plan:
    """The plan meant by an object, its dict or its JSON."""
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, str):
        return Plan.from_json(plan)
    if isinstance(plan, Mapping):
        return Plan.from_dict(plan)
    raise TypeError(f"plan must be an ibnn.Plan, its dict or its JSON, got {shown(plan)}")


def _numbers(value: Tensor) -> Value:
    found = value.detach().double().tolist()
    return tuple(found) if isinstance(found, list) else found


def _checked(name: str, value: Any) -> Value:
    many = isinstance(value, Sequence) and not isinstance(value, str)
    numbers: tuple[Any, ...] = tuple(value) if many else (value,)
    for number in numbers:
        if not is_number(number):
            raise ValueError(f"{name} must be a number or a list of them, got {shown(value)}")
        if not math.isfinite(number):
            raise ValueError(f"{name} must be finite, got {shown(value)}")
    return tuple(map(float, numbers)) if many else float(numbers[0])
