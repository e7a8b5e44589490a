"""The arguments of a conversion, checked: which layers, their lam, their coupling."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from ibnn._checks import is_number, shown
from ibnn.conversion.layer_class import kind_of
from ibnn.coupling import Coupling

Only = str | Iterable[str] | Callable[[str, nn.Module], bool]
Lam = float | Mapping[str, float] | Callable[[str, nn.Module], float]
CouplingChoice = str | Coupling | None
Couplings = (
    CouplingChoice | Mapping[str, CouplingChoice] | Callable[[str, nn.Module], CouplingChoice]
)

_CONV_NAMES = ("space", "channels", "layer")
_LINEAR_NAMES = ("features",)
_KINDS = ("conv", "linear")


def chooser(only: Any) -> Callable[[str, nn.Module], bool]:
    """`only` as a function of name and layer."""
    if only is None:
        return lambda name, layer: True
    if callable(only):
        return lambda name, layer: bool(only(name, layer))
    patterns = _patterns(only)
    return lambda name, layer: any(fnmatchcase(name, pattern) for pattern in patterns)


def check_only(only: Any, names: Iterable[str]) -> None:
    """Refuses a pattern that fits none of the layers' names: the others may have hidden it."""
    if only is None or callable(only):
        return
    known = list(names)
    for pattern in _patterns(only):
        if not any(fnmatchcase(name, pattern) for name in known):
            raise ValueError(f"only has a pattern {pattern!r} that fits no layer")


def _patterns(only: Any) -> tuple[str, ...]:
    patterns = (only,) if isinstance(only, str) or not isinstance(only, Iterable) else tuple(only)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise TypeError(
            f"only must be a name pattern, a list of them or a function of name and layer, "
            f"got {shown(only)}"
        )
    return patterns


def check_lam(lam: Any) -> None:
    """Refuses what cannot be a lam before any layer is looked at."""
    if callable(lam):
        return
    patterns = lam if isinstance(lam, Mapping) else {"*": lam}
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise TypeError(f"lam must be a number, or numbers by name pattern, got {shown(lam)}")
    for value in patterns.values():
        _number(value, lam)


def lam_of_layers(
    lam: Any, layers: Mapping[str, list[str]], modules: Mapping[str, nn.Module]
) -> dict[str, float]:
    """The lam of each layer, which may be known by several names."""
    if callable(lam):
        return {name: _number(lam(name, modules[name]), lam) for name in layers}
    patterns = dict(lam) if isinstance(lam, Mapping) else {"*": lam}
    lams = {}
    unused = set(patterns)
    for layer, names in layers.items():
        fitting = [p for p in patterns if any(fnmatchcase(name, p) for name in names)]
        if not fitting:
            raise ValueError(f"lam={patterns} has no value for layer {layer!r}; add one for '*'")
        lams[layer] = float(patterns[fitting[0]])
        unused -= set(fitting)
    if layers and unused:
        raise ValueError(f"lam has a pattern {min(unused)!r} that fits no layer to convert")
    return lams


def _number(value: Any, lam: Any) -> float:
    if not is_number(value):
        raise TypeError(
            f"lam must be a number, or numbers by name pattern, got {shown(value)}"
            if callable(lam)
            else f"lam must be a number, or numbers by name pattern, got {shown(lam)}"
        )
    if not math.isfinite(value):
        raise ValueError(f"lam must be finite, got {value if callable(lam) else lam!r}")
    return float(value)


def check_coupling(coupling: Any) -> None:
    """Refuses what cannot be a coupling before any layer is looked at."""
    if callable(coupling) and not isinstance(coupling, Coupling):
        return None
    if not isinstance(coupling, Mapping):
        return _check_one(coupling, _CONV_NAMES, "")
    for kind, choice in coupling.items():
        if kind not in _KINDS:
            raise ValueError(f"coupling is for a kind {kind!r}; expected {' and '.join(_KINDS)}")
        _check_one(choice, _CONV_NAMES if kind == "conv" else _LINEAR_NAMES, f" for {kind}")
    return None


def coupling_of(coupling: Any, name: str, layer: nn.Module) -> CouplingChoice:
    """The coupling one layer is made with, its own copy; None is what its class does by default."""
    linear = kind_of(layer) == "linear"
    own: Any = coupling
    if isinstance(coupling, Mapping):
        own = coupling.get("linear" if linear else "conv")
    elif callable(coupling) and not isinstance(coupling, Coupling):
        own = coupling(name, layer)
        _check_one(own, (*_CONV_NAMES, *_LINEAR_NAMES), "")
    elif linear and isinstance(coupling, str):
        return None  # a plain name is for convolutions
    if not isinstance(own, Coupling):
        if own is not None and own not in (_LINEAR_NAMES if linear else _CONV_NAMES):
            raise ValueError(f"coupling={own!r} is not for a {type(layer).__name__}")
        return None if linear else own
    if linear and own.dims != (-1,):
        raise ValueError(
            f"coupling {own} is over dims {own.dims}, but the units of a Linear are its last dim; "
            'choose by kind: coupling={"conv": ...}'
        )
    return copy.deepcopy(own).train(layer.training)


def _check_one(coupling: Any, names: tuple[str, ...], where: str) -> None:
    if coupling is None or isinstance(coupling, Coupling):
        return
    if not isinstance(coupling, str) or coupling not in names:
        raise ValueError(
            f"coupling={coupling!r}{where} is not known; expected one of {names} or a coupling"
        )
