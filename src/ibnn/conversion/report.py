"""What a conversion does to each layer: make it implicit, leave it, or fail to reach it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from numbers import Real
from typing import Any

import torch
from torch import nn

from ibnn.conversion.layer_class import is_affine, obstacle
from ibnn.nn.layer import ImplicitLayer

# they multiply by weights of their own, or of their children, without calling a layer
_OPAQUE: dict[type, str] = {
    nn.MultiheadAttention: "multiplies by its packed projections itself",
    nn.RNNBase: "multiplies by its recurrent weights itself",
    nn.RNNCellBase: "multiplies by its recurrent weights itself",
    nn.Bilinear: "is not an affine map of one input",
    torch.jit.ScriptModule: "is compiled by TorchScript: convert the model it was made from",
}


@dataclass(frozen=True)
class Conversion:
    """Which layers `convert` made implicit, which it left, and which it cannot reach; names are
    those of `named_modules`, the model itself is "". Reasons come with the names."""

    converted: tuple[str, ...]
    skipped: dict[str, str]
    unreached: dict[str, str]

    def __str__(self) -> str:
        lines = [f"converted {len(self.converted)}: {', '.join(map(repr, self.converted))}"]
        for title, names in (("skipped", self.skipped), ("not reached", self.unreached)):
            lines += [f"{title} {name!r}: {reason}" for name, reason in names.items()]
        return "\n".join(lines)


def plan(
    model: nn.Module, lam: Any, only: Any, skip_head: bool
) -> tuple[Conversion, dict[str, float]]:
    """The report, and the lam of each layer to convert."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {model!r}")
    if not isinstance(getattr(model, "conversion", None), Conversion | None):
        raise ValueError("model has an attribute 'conversion' of its own, where the report goes")
    if not isinstance(skip_head, bool):
        raise TypeError(f"skip_head must be True or False, got {skip_head!r}")
    chosen, patterns = _chooser(only), _lam_patterns(lam)

    called: list[nn.Module] = []  # with repetitions, as registered
    names: dict[nn.Module, list[str]] = {}
    unreached: dict[str, str] = {}
    for name, module, reason in _walk("", model, None):
        if reason is None:
            called.append(module)
            names.setdefault(module, []).append(name)
            reason = None if isinstance(module, ImplicitLayer) else obstacle(module)
        if reason is not None:
            unreached[name] = reason
    head = _head(called) if skip_head else None

    skipped: dict[str, str] = {}
    taken: dict[str, list[str]] = {}
    for module, known in names.items():
        if known[0] in unreached:
            continue
        if isinstance(module, ImplicitLayer):
            skipped[known[0]] = "has an implicit bias already"
        elif not any(chosen(name, module) for name in known):
            skipped[known[0]] = "not chosen by only"
        elif module is head:
            skipped[known[0]] = "classification head"
        else:
            taken[known[0]] = known
    return Conversion(tuple(taken), skipped, unreached), _lams(patterns, taken)


def _walk(
    name: str, module: nn.Module, reason: str | None
) -> Iterator[tuple[str, nn.Module, str | None]]:
    """Affine layers, and what hides some, in the order of registration; a module registered twice
    comes twice. The reason says why nothing calls the layer."""
    hides = next((why for kind, why in _OPAQUE.items() if isinstance(module, kind)), None)
    if hides is not None and reason is None:
        yield name, module, f"{type(module).__name__} {hides}"
        reason = f"{type(module).__name__} reads its weights without calling it"
    elif is_affine(module):
        yield name, module, reason
    for key, child in module._modules.items():
        if child is not None:
            yield from _walk(f"{name}.{key}" if name else key, child, reason)


def _head(layers: list[nn.Module]) -> nn.Module | None:
    if layers and all(size == 1 for size in getattr(layers[-1], "kernel_size", ())):
        return layers[-1]
    return next((layer for layer in reversed(layers) if isinstance(layer, nn.Linear)), None)


def _chooser(only: Any) -> Callable[[str, nn.Module], bool]:
    if only is None:
        return lambda name, layer: True
    if callable(only):
        return lambda name, layer: bool(only(name, layer))
    patterns = (only,) if isinstance(only, str) or not isinstance(only, Iterable) else tuple(only)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise TypeError(
            f"only must be a name pattern, a list of them or a function of name and layer, "
            f"got {only!r}"
        )
    return lambda name, layer: any(fnmatchcase(name, pattern) for pattern in patterns)


def _lam_patterns(lam: Any) -> dict[str, float]:
    patterns = dict(lam) if isinstance(lam, Mapping) else {"*": lam}
    for pattern, value in patterns.items():
        if not isinstance(pattern, str) or not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"lam must be a number, or numbers by name pattern, got {lam!r}")
        if not math.isfinite(value):
            raise ValueError(f"lam must be finite, got {lam!r}")
    return patterns


def _lams(patterns: dict[str, float], layers: dict[str, list[str]]) -> dict[str, float]:
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


def why_nothing(report: Conversion, only: Any) -> str:
    """One line for a report without a converted layer."""
    implicit = [name for name, reason in report.skipped.items() if "already" in reason]
    if implicit:
        return f"already implicit: {', '.join(map(repr, implicit))}"
    head = [name for name, reason in report.skipped.items() if reason == "classification head"]
    if head:
        return f"there is no layer before the classification head {head[0]!r}"
    why = "; ".join(f"{name!r}: {reason}" for name, reason in report.unreached.items())
    beyond = f" (not reached: {why})" if why else ""
    if "not chosen by only" in report.skipped.values():
        known = ", ".join(map(repr, report.skipped))
        return f"only={only!r} chooses none of the layers {known}{beyond}"
    return f"model has no standard linear layer or convolution in reach{beyond}"
