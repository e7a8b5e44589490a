"""A copy of a network whose solves are a fixed number of plain torch ops, for ONNX and TorchScript.

The steps themselves, and what they cost, are in `ibnn.export.plain`.
"""

import copy
import functools
import math
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ibnn._checks import check_module, check_positive, check_whole
from ibnn.conversion.convert import hold_fused_paths, standard
from ibnn.conversion.layer_class import change_class
from ibnn.export.plain import PlainBias
from ibnn.nn.layer import ImplicitLayer

Model = TypeVar("Model", bound=nn.Module)

MOST_STEPS = 24


def for_export(model: Model, sample: Any, error: float = 1e-4, steps: int | None = None) -> Model:
    """A copy of `model` in evaluation mode that `torch.onnx.export`, `torch.jit.trace` and
    `torch.export` can record as plain ops.

    The copy has two more attributes: `.steps`, the Newton steps of every solve, and `.error`, the
    largest difference of its outputs from those of `model` on the sample. Other inputs may be off
    by more: measure on data of your own. Sizes of the units (not of the batch) are those of the
    sample. Gradients pass through the steps; train the original.

    Args:
        model: a network with implicit layers.
        sample: an input as the network will see it: a tensor, a tuple of arguments, or a dict of
            keyword arguments. Take more than one example, of the data and not noise.
        error: how far an output may be off on the sample; the smallest number of steps that reaches
            it is used.
        steps: this number of steps instead, whatever the error.

    Raises:
        ValueError: no number of steps up to 24 reaches `error`, no output has a floating-point
            dtype, a row has more than 4096 units, or a layer has a sigma without formulas or an
            approximate solver.

    Examples:
        >>> import ibnn
        >>> model = ibnn.Linear(4, 8, lam=-0.3)
        >>> sample = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
        >>> copied = for_export(model, sample)
        >>> copied.error <= 1e-4
        True
        >>> traced = torch.jit.trace(copied, torch.zeros(2, 4))  # doctest: +SKIP
    """
    _check(model, error, steps)
    arguments, keywords = _arguments(sample)
    reference = copy.deepcopy(model).eval()
    plain: Any = standard(model).eval()
    biases: list[PlainBias] = []
    layers = dict(plain.named_modules())
    for name, layer in reference.named_modules():
        if isinstance(layer, ImplicitLayer):
            try:
                biases.append(PlainBias(layer))
            except ValueError as problem:
                raise ValueError(f"layer {name!r}: {problem}") from None
            layers[name].plain_bias = biases[-1]
            change_class(layers[name], _followed)
    hold_fused_paths(plain, PlainBias)
    with torch.no_grad():
        expected = _outputs(reference(*arguments, **keywords))
        if not expected:
            raise ValueError(
                "model has no floating-point output on the sample, by which its error is measured"
            )
        tried = [steps] if steps is not None else range(1, MOST_STEPS + 1)
        best = math.inf
        for count in tried:
            for bias in biases:
                bias.steps = count
            best = min(best, _distance(_outputs(plain(*arguments, **keywords)), expected))
            if steps is not None or best <= error:
                plain.steps, plain.error = count, best
                return plain
    raise ValueError(
        f"error={error:g} is not reached in {MOST_STEPS} steps: the outputs are off by {best:.2g}"
    )


@functools.cache
def _followed(kind: type[nn.Module]) -> type[nn.Module]:
    """A class that computes what `kind` does, and then its `plain_bias`."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        return self.plain_bias(kind.forward(self, *args, **kwargs))

    return type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})


def _check(model: Any, error: Any, steps: Any) -> None:
    check_module(model)
    if not any(isinstance(layer, ImplicitLayer) for layer in model.modules()):
        raise ValueError("model has no implicit layer: export it as it is")
    for name in ("steps", "error"):
        if hasattr(model, name):
            raise ValueError(f"model has an attribute {name!r} of its own, where the result goes")
    check_positive("error", error)
    if steps is not None:
        check_whole("steps", steps, 1)


def _arguments(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(sample, Tensor):
        return (sample,), {}
    if isinstance(sample, tuple):
        return sample, {}
    if isinstance(sample, Mapping):
        return (), dict(sample)
    raise TypeError(
        "sample must be a tensor, a tuple of arguments or a dict of keyword arguments, "
        f"got {type(sample).__name__}"
    )


def _outputs(output: Any) -> list[Tensor]:
    found = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
    return [leaf for leaf in found if leaf.is_floating_point() and leaf.numel()]


def _distance(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference of two outputs; infinite where it is not a number."""
    worst = [float((a - b).abs().max()) for a, b in zip(found, expected, strict=True)]
    # (`max` passes over a NaN that is not its first argument)
    return max(worst) if all(map(math.isfinite, worst)) else math.inf
