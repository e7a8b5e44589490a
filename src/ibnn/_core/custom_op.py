"""Python functions as torch ops that `torch.compile` and `torch.export` keep whole.

`torch.library.custom_op` does the same, but imports the compiler at the first call of a process,
compiled or not, which takes more than a second.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active, _len_torch_dispatch_stack
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

# one for each op, so that one can be replaced
_LIBRARIES: dict[str, torch.library.Library] = {}


def custom_op(fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Makes a function the op of its name; `fake` gives empty results of the right shapes."""

    def register(function: Callable[..., Any]) -> Any:
        name = function.__name__
        if name in _LIBRARIES:  # a module that is loaded again, as notebooks do
            _LIBRARIES.pop(name)._destroy()
        library = _LIBRARIES[name] = torch.library.Library("ibnn", "FRAGMENT")
        schema = torch.library.infer_schema(function, mutates_args=())
        library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        full = _autocast_disabled(function)
        library.impl(name, _dynamo_disabled(full), "CompositeExplicitAutograd")
        torch.library.register_fake(f"ibnn::{name}", fake, lib=library)
        return _eager_or_op(function, getattr(torch.ops.ibnn, name).default)

    return register


def _eager_or_op(function: Callable[..., Any], op: Any) -> Any:
    """The op where torch has to see it; elsewhere the function itself, which costs 20 us less."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return (op if needs_dispatch(*args) else function)(*args)

    call.op = op  # type: ignore[attr-defined]
    return call


def needs_dispatch(first: Tensor, *others: Any) -> bool:
    """Whether autograd, or a transform (`has_active_transform`), must see ops on these tensors."""
    return torch.is_grad_enabled() or has_active_transform(first, *others)


def has_active_transform(first: Tensor, *others: Any) -> bool:
    """Whether torch.compile, torch.func, a dispatch mode, forward AD or autocast is at work."""
    if (
        is_compiling()
        or type(first) is not Tensor
        or first.is_meta
        or _len_torch_dispatch_stack()
        or _are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        # (to name a device takes as long as the rest)
        or torch.is_autocast_enabled("cpu" if first.is_cpu else first.device.type)
        or _is_wrapped(first)
    ):
        return True
    # (no `any`, whose generator would take as long as everything else here)
    for other in others:  # noqa: SIM110
        if isinstance(other, Tensor) and _is_wrapped(other):
            return True
    return False


def _is_wrapped(t: Tensor) -> bool:
    """Whether the memory of t is not what t says: a batch that calls itself one, in a product of
    torch.func.vjp that is called after its transform has ended, or in
    `torch.autograd.grad(..., is_grads_batched=True)`; the imaginary part of a conjugate, which is
    negated when it is read; a zero tangent without memory. Dispatch makes numbers of them."""
    return (
        is_functorch_wrapped_tensor(t)
        or is_legacy_batchedtensor(t)
        or t.is_neg()
        or t._is_zerotensor()
    )


def _autocast_disabled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps autocast out: its half precision would undo the solve from inside."""

    @functools.wraps(function)
    def call(first: Tensor, *args: Any) -> Any:
        device = first.device.type
        if not torch.is_autocast_enabled(device):
            return function(first, *args)
        with torch.autocast(device, enabled=False):
            return function(first, *args)

    return call


def _dynamo_disabled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps a compiler that is at work out of the function's own code."""
    disabled: Callable[..., Any] | None = None

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        nonlocal disabled
        if disabled is None and "torch._dynamo" in sys.modules:
            disabled = torch._dynamo.disable(function)
        return (disabled or function)(*args)

    return call
