"""What a conversion does to each layer: make it implicit, leave it, or fail to reach it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from ibnn._checks import shown
from ibnn.conversion.layer_class import kind_of, obstacle
from ibnn.conversion.plan import Plan
from ibnn.nn.layer import ImplicitLayer

IMPLICIT_ALREADY = "has an implicit bias already"
HEAD = "classification head"

# they multiply by weights of their own, or of their children, without calling a layer
_OPAQUE: dict[type, str] = {
    nn.MultiheadAttention: "multiplies by its packed projections itself",
    nn.RNNBase: "multiplies by its recurrent weights itself",
    nn.RNNCellBase: "multiplies by its recurrent weights itself",
    nn.Bilinear: "is not an affine map of one input",
    torch.jit.ScriptModule: "is compiled by TorchScript: convert the model it was made from",
}
_LOOKUPS = (nn.Embedding, nn.EmbeddingBag)


@dataclass(frozen=True)
class Conversion:
    """What `convert` did with every module that holds weights; names are those of `named_modules`,
    the model itself is "".

    Attributes:
        converted: the layers that were made implicit.
        skipped: layers that could have been, with the reason why not.
        unreached: layers an implicit bias cannot be given to, with the reason.
        others: what else holds weights and is no affine layer (norms, embeddings, parameters of a
            module's own), with what it is.
        plan: the conversion as data (`ibnn.Plan`); None in a report of what would be done.

    Examples:
        >>> import ibnn
        >>> network = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))
        >>> found = ibnn.convert(network, lam=-0.1).conversion
        >>> found.converted, found.skipped, found.others
        (('0',), {'2': 'classification head'}, {'1': 'LayerNorm, a normalization'})
    """

    converted: tuple[str, ...]
    skipped: dict[str, str]
    unreached: dict[str, str]
    others: dict[str, str] = field(default_factory=dict)
    plan: Plan | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        lines = [f"converted {len(self.converted)}: {', '.join(map(repr, self.converted))}"]
        for title, names in (("skipped", self.skipped), ("not reached", self.unreached)):
            lines += [f"{title} {name!r}: {reason}" for name, reason in names.items()]
        alike: dict[str, list[str]] = {}
        for name, what in self.others.items():
            alike.setdefault(what, []).append(name)
        for what, names in alike.items():
            shown = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
            lines.append(f"no affine layer, left as it is: {len(names)} x {what} ({shown})")
        return "\n".join(lines)


class Survey(NamedTuple):
    """The report, and every name of each layer to convert by its first."""

    report: Conversion
    names: dict[str, list[str]]


def survey(
    model: nn.Module,
    chosen: Callable[[str, nn.Module], bool],
    skip_head: bool,
    otherwise: str = "not chosen by only",
) -> Survey:
    """Looks at every module that holds weights; `otherwise` is the reason of those not chosen."""
    called: list[nn.Module] = []  # with repetitions, as registered
    names: dict[nn.Module, list[str]] = {}
    unreached: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, module, reason in _walk("", model, None):
        if _is_affine(module):
            if reason is None:
                called += [module] if kind_of(module) else []
                names.setdefault(module, []).append(name)
                reason = None if isinstance(module, ImplicitLayer) else obstacle(module)
        elif reason is None:
            others.setdefault(name, _what(module))
        if reason is not None:
            unreached[name] = reason
    head = _head(called) if skip_head else None

    skipped: dict[str, str] = {}
    taken: dict[str, list[str]] = {}
    for module, known in names.items():
        if known[0] in unreached:
            continue
        if isinstance(module, ImplicitLayer):
            skipped[known[0]] = IMPLICIT_ALREADY
        elif not any(chosen(name, module) for name in known):
            skipped[known[0]] = otherwise
        elif module is head:
            skipped[known[0]] = HEAD
        else:
            taken[known[0]] = known
    return Survey(Conversion(tuple(taken), skipped, unreached, others), taken)


def _walk(
    name: str, module: nn.Module, reason: str | None, within: bool = False
) -> Iterator[tuple[str, nn.Module, str | None]]:
    """Affine layers, what hides some, and what else holds weights, in the order of registration; a
    module registered twice comes twice. The reason says why nothing calls the layer; `within` is
    inside of an affine layer, whose parametrizations are its own business."""
    hides = next((why for kind, why in _OPAQUE.items() if isinstance(module, kind)), None)
    affine = _is_affine(module)
    if hides is not None and reason is None:
        yield name, module, f"{type(module).__name__} {hides}"
        reason = f"{type(module).__name__} reads its weights without calling it"
    elif affine or (not within and reason is None and _own_weights(module)):
        yield name, module, reason
    for key, child in module._modules.items():
        if child is not None:
            yield from _walk(f"{name}.{key}" if name else key, child, reason, within or affine)


def _own_weights(module: nn.Module) -> list[str]:
    named = [name for name, value in module._parameters.items() if value is not None]
    frozen = [
        name for name, value in module._buffers.items() if name == "weight" and value is not None
    ]
    packed = ["_packed_params"] if hasattr(module, "_packed_params") else []  # quantized layers
    return named + frozen + packed


def _what(module: nn.Module) -> str:
    kind = type(module).__name__
    own = [module._parameters.get(name) for name in _own_weights(module)]
    if "Norm" in kind and all(value is None or value.ndim <= 1 for value in own):
        return f"{kind}, a normalization"
    if isinstance(module, _LOOKUPS):
        return f"{kind}, a table"
    return f"{kind} with parameters of its own: {', '.join(_own_weights(module))}"


def _head(layers: list[nn.Module]) -> nn.Module | None:
    if layers and all(size == 1 for size in getattr(layers[-1], "kernel_size", ())):
        return layers[-1]
    return next((layer for layer in reversed(layers) if kind_of(layer) == "linear"), None)


def layer_names(model: nn.Module, report: Conversion) -> list[str]:
    """Every name of every layer that `only` may mean, those out of reach included."""
    modules = model.named_modules(remove_duplicate=False)
    return [*report.unreached, *(name for name, m in modules if _is_affine(m))]


def _is_affine(module: nn.Module) -> bool:
    return isinstance(module, ImplicitLayer) or kind_of(module) is not None


def why_nothing(report: Conversion, only: Any) -> str:
    """One line for a report without a converted layer."""
    implicit = [name for name, reason in report.skipped.items() if reason == IMPLICIT_ALREADY]
    if implicit:
        return f"already implicit: {', '.join(map(repr, implicit))}"
    why = "; ".join(f"{name!r}: {reason}" for name, reason in report.unreached.items())
    beyond = f" (not reached: {why})" if why else ""
    head = next((name for name, reason in report.skipped.items() if reason == HEAD), None)
    if head is not None:
        if not head:
            alone = "the model is one layer, which counts as the classification head"
        elif len(report.skipped) == 1:
            alone = f"there is no layer before the classification head {head!r}"
        else:
            alone = f"only={shown(only)} chooses the classification head {head!r} alone"
        return f"{alone}; skip_head=False converts it{beyond}"
    if report.skipped:
        known = ", ".join(map(repr, report.skipped))
        return f"only={shown(only)} chooses none of the layers {known}{beyond}"
    return f"model has no standard linear layer or convolution in reach{beyond}"
