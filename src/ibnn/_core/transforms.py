"""Support of torch.compile, forward mode and vmap by the autograd functions, over rows."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import Function, forward_ad

from ibnn._tensors import is_plain


def differentiable(function: Any) -> Callable[..., Any]:
    """`function.apply`, with its `tangent` as forward mode except while torch.compile traces, which
    takes no function that has one."""
    forward_mode: Any = type(function.__name__, (function,), {"jvp": function.tangent})
    # `apply` binds its arguments by name at every call, 0.1 ms, which only torch.func needs
    plainly: Any = super(Function, forward_mode).apply  # type: ignore[attr-defined]

    def apply(*args: Any) -> Any:
        if torch.compiler.is_compiling():
            return function.apply(*args)
        if not is_plain():
            _refuse_nested_forward_mode()
            return forward_mode.apply(*args)
        if not torch.is_grad_enabled() and forward_ad._current_level < 0:
            return function.forward(*args)  # no graph, no tangents: 20 us less
        return plainly(*args)

    return apply


def _refuse_nested_forward_mode() -> None:
    """torch computes the tangent of a function with forward mode off, also that of a transform
    outside: terms of its derivative would be missing without a word."""
    transforms = get_interpreter_stack() or ()
    if sum(transform.key() == TransformType.Jvp for transform in transforms) > 1:
        raise NotImplementedError(
            "forward mode inside forward mode (torch.func.jacfwd of jacfwd, jvp of jvp) loses "
            "derivatives of an implicit bias: use reverse mode for one of the two, as "
            "torch.func.hessian does"
        )


def vmap_rows(
    apply: Callable[..., Any],
    batch: int,
    rows: Sequence[Tensor | None],
    row_dims: Sequence[int | None],
    weight: Tensor | None,
    weight_dim: int | None,
) -> tuple[Any, Any]:
    """`apply(rows, weight)` under vmap; only a batch of weights needs a loop."""
    if weight is not None and weight_dim is not None:
        results = [
            apply(one_of_batch(rows, row_dims, b), weight.select(weight_dim, b))
            for b in range(batch)
        ]
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        return tuple(torch.stack(r) for r in zip(*results, strict=True)), (0,) * len(results[0])
    folded, count = _fold(batch, rows, row_dims)
    result = apply(folded, weight)
    if isinstance(result, Tensor):
        return result.unflatten(0, (batch, count)), 0
    return tuple(r.unflatten(0, (batch, count)) for r in result), (0,) * len(result)


def _fold(
    batch: int, tensors: Sequence[Tensor | None], dims: Sequence[int | None]
) -> tuple[list[Tensor | None], int]:
    """Puts a vmapped dim into the rows: rows are independent, so a batch is more of them. Also how
    many rows each of the batch has."""
    folded, count = [], 0
    for tensor, dim in zip(tensors, dims, strict=True):
        if tensor is None:
            folded.append(None)
            continue
        moved = tensor.expand(batch, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        folded.append(moved.flatten(0, 1))
        count = moved.shape[1]
    return folded, count


def one_of_batch(
    tensors: Sequence[Tensor | None], dims: Sequence[int | None], b: int
) -> list[Tensor | None]:
    return [
        t if t is None or d is None else t.select(d, b)
        for t, d in zip(tensors, dims[: len(tensors)], strict=True)
    ]
