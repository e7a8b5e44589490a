"""The implicit class of a torch layer and the way back: a layer changes class and nothing moves.

Changing the class of a layer keeps what building another would have to carry over piece by piece,
and forgets as torch grows: parameters and their ties, buffers, hooks, flags, parametrizations and
whatever a user hung on it.
"""

import functools
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import parametrize

from ibnn.nn.layer import ImplicitLayer, is_symbolic
from ibnn.nn.layers import Conv1d, Conv2d, Conv3d, ImplicitBias, Linear
from ibnn.nn.transposed import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d


class _Followed(ImplicitLayer):
    """A layer without an ibnn class of its own, followed by the implicit bias."""

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if is_symbolic(input):
            return self._symbolic(input, *args, **kwargs)
        return self.add_implicit_bias(super().forward(input, *args, **kwargs))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.bias_repr()}"


_IMPLICIT: dict[type[nn.Module], type[ImplicitLayer]] = {
    nn.Linear: Linear,
    nn.Conv1d: Conv1d,
    nn.Conv2d: Conv2d,
    nn.Conv3d: Conv3d,
    nn.ConvTranspose1d: ConvTranspose1d,
    nn.ConvTranspose2d: ConvTranspose2d,
    nn.ConvTranspose3d: ConvTranspose3d,
}
_STANDARD: dict[type[ImplicitLayer], type[nn.Module]] = {
    implicit: standard for standard, implicit in _IMPLICIT.items()
} | {ImplicitBias: nn.Identity}

# what an implicit bias hangs on a layer, and the names of its methods
_NAMES = {*vars(ImplicitLayer), *vars(ImplicitBias()), "lam", "slope"} - set(dir(nn.Module()))
_NAMES = sorted(name for name in _NAMES if not name.startswith("__"))


def kind_of(module: nn.Module) -> str | None:
    """ "linear", "conv" or None where a module is not an affine map that convert knows."""
    if isinstance(module, _ConvNd):
        return "conv"
    if isinstance(module, nn.Linear):
        return "linear"
    # Hugging Face's Conv1D (GPT-2) is a linear layer with its weight stored as (inputs, outputs)
    weight = getattr(module, "weight", None)
    transposed = (
        _linear_by_name(type(module)) is not None
        and isinstance(weight, Tensor)
        and weight.ndim == 2
        and getattr(module, "nf", None) == weight.shape[1]
    )
    return "linear" if transposed else None


def obstacle(layer: nn.Module) -> str | None:
    """Why an affine layer cannot be given an implicit bias; None where it can."""
    kind = type(layer).__name__
    base = _base(type(layer))
    if base is None or any(
        name in vars(layer) or getattr(type(layer), name) is not getattr(base, name)
        for name in ("forward", "_conv_forward")
        if hasattr(base, name)
    ):
        return f"{kind} has a forward of its own: put an ibnn.ImplicitBias after it"
    tensors = [*layer.parameters(), *layer.buffers()]
    if any(t.dtype.is_complex for t in tensors) or not any(
        t.dtype.is_floating_point for t in tensors
    ):
        return f"{kind} has no real floating-point weights"
    if any(t.device.type == "meta" for t in tensors):
        return f"{kind} is on the meta device: give it weights before"
    taken = next((name for name in _NAMES if hasattr(layer, name)), None)
    if taken is not None:
        return f"{kind} has an attribute {taken!r} already, which the implicit bias needs"
    return None


def add_bias(layer: nn.Module, options: Mapping[str, Any]) -> None:
    """Makes an affine layer implicit, in place; `options` are the keywords of its class."""
    tensors = chain(layer.parameters(), layer.buffers())
    like = next(t for t in tensors if t.dtype.is_floating_point)
    change_class(layer, _implicit_class)
    assert isinstance(layer, ImplicitLayer)
    channels, spatial_dims = 1, None
    if isinstance(layer, _ConvNd):
        channels, spatial_dims = layer.out_channels, len(layer.kernel_size)
    layer._init_implicit_bias(
        channels, spatial_dims, device=like.device, dtype=like.dtype, **options
    )


def remove_bias(layer: ImplicitLayer) -> None:
    """The inverse of `add_bias`, also for layers that were built as implicit ones."""
    change_class(layer, _standard_class)
    for name in _NAMES:
        if hasattr(layer, name):
            delattr(layer, name)


def _base(kind: type[nn.Module]) -> type[nn.Module] | None:
    """The class whose affine map a layer of this class computes."""
    return next((base for base in _IMPLICIT if issubclass(kind, base)), _linear_by_name(kind))


def _linear_by_name(kind: type[nn.Module]) -> type[nn.Module] | None:
    # by its name: transformers need not be installed
    return next((base for base in kind.__mro__ if base.__name__ == "Conv1D"), None)


def change_class(layer: nn.Module, change: Callable[[Any], type[nn.Module]]) -> None:
    """Gives a layer the class that `change` makes of its own, parametrized or not."""
    kind = type(layer)
    if not parametrize.is_parametrized(layer):
        layer.__class__ = change(kind)
        return
    # torch lays a class with the computed weight over the layer's own, and expects it on top when
    # the parametrization is removed
    own = {name: v for name, v in vars(kind).items() if name not in ("__dict__", "__weakref__")}
    layer.__class__ = type(kind.__name__, (change(kind.__bases__[0]),), own)


@functools.cache
def _implicit_class(standard: type[nn.Module]) -> type[ImplicitLayer]:
    implicit = next((new for base, new in _IMPLICIT.items() if issubclass(standard, base)), None)
    if standard in _IMPLICIT:
        return _IMPLICIT[standard]
    # a subclass keeps its methods and properties: the bias is laid over it
    names: dict[str, Any] = {
        "__module__": standard.__module__,
        "__qualname__": standard.__qualname__,
    }
    names |= {"_standard_class": standard, "__reduce_ex__": _reduce}
    if issubclass(standard, LazyModuleMixin):  # what it becomes when it is given weights
        becomes = standard.cls_to_become
        names["cls_to_become"] = None if becomes is None else _implicit_class(becomes)
    laid_over: Any = type(standard.__name__, (implicit or _Followed, standard), names)
    return laid_over


def _standard_class(implicit: type[ImplicitLayer]) -> type[nn.Module]:
    laid_over = vars(implicit).get("_standard_class")
    if laid_over is not None:
        return laid_over
    base = next((base for base in _STANDARD if issubclass(implicit, base)), None)
    if base is None or implicit.forward is not base.forward:
        raise ValueError(
            f"model has a {implicit.__name__}, whose forward is its own: "
            "its implicit bias cannot be removed"
        )
    return _STANDARD[base]


def _reduce(layer: Any, protocol: Any) -> tuple[Any, ...]:
    """Pickle looks classes up by name, and finds the standard one: made implicit when loaded."""
    _, _, *state = nn.Module.__reduce_ex__(layer, protocol)
    return (_blank, (type(layer)._standard_class,), *state)


def _blank(standard: type[nn.Module]) -> ImplicitLayer:
    kind = _implicit_class(standard)
    return kind.__new__(kind)
