"""What a checkpoint stores of a layer besides its weights: slope, sigma and coupling as chosen, and
a solver that computes another map than the solution (`lite`).

One small uint8 tensor of JSON, which safetensors can hold. It is compared on loading, so that a
layer of slope 3 does not become one of slope 10 in silence; checkpoints of standard layers and of
older versions do not have it.
"""

import json
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from ibnn.nn.layer import ImplicitLayer

KEY = "implicit_bias"
EXACT = "exact"  # stands for any solver of the equation


def describe(layer: "ImplicitLayer") -> dict[str, Any]:
    """What was chosen; a learnt slope is among the weights."""
    chosen: dict[str, Any] = {"sigma": layer.sigma.name, "coupling": layer.coupling.config()}
    if not layer.learn_slope:
        slope = layer._first_values["slope"] if layer.slope.is_meta else layer.slope
        chosen["slope"] = slope.tolist()
    chosen["solver"] = layer.solver.name if layer.solver.approximate else EXACT
    return chosen


def write(layer: "ImplicitLayer") -> Tensor:
    text = json.dumps({"version": 1, **describe(layer)}, sort_keys=True)
    return torch.tensor(list(text.encode()), dtype=torch.uint8, device="cpu")


def differences(layer: "ImplicitLayer", stored: Tensor, prefix: str) -> list[str]:
    """One line for every choice in which the checkpoint and the layer differ."""
    try:
        saved = json.loads(bytes(stored.to("cpu", torch.uint8).tolist()))
        version = saved.pop("version")
    except (ValueError, KeyError, AttributeError, TypeError, RuntimeError):
        return [f'"{prefix}{KEY}" cannot be read: the checkpoint is damaged']
    if version != 1:
        return [f'"{prefix}{KEY}" has version {version!r}, expected 1: made by a newer ibnn']
    return [
        f"{prefix.removesuffix('.') or 'the layer'} was saved with {name}={saved[name]}, but has "
        f"{name}={value}"
        for name, value in describe(layer).items()
        if name in saved and not _same(saved[name], value)
    ]


def _same(saved: Any, value: Any) -> bool:
    if isinstance(value, float) and isinstance(saved, float):
        # a slope or std of 0.1 is another number in half precision
        return abs(saved - value) <= 1e-2 * abs(value)
    if isinstance(value, dict) and isinstance(saved, dict):
        return saved.keys() == value.keys() and all(_same(saved[k], value[k]) for k in value)
    if isinstance(value, list) and isinstance(saved, list):
        pairs = zip(saved, value, strict=False)
        return len(saved) == len(value) and all(_same(s, v) for s, v in pairs)
    return saved == value


class _MissingLam(str):
    """The missing key "lam", with a hint where torch writes it into an error message."""

    def __format__(self, spec: str) -> str:
        key = str.__str__(self)
        why = "checkpoints of standard layers lack it: load them with strict=False"
        return f'{key}" ({why}, or before ibnn.convert), i.e. "{key}'


def explained(missing: list[str], prefix: str) -> list[str]:
    """Missing keys, with a hint at the one that standard checkpoints lack."""
    return [_MissingLam(key) if key == f"{prefix}lam" else key for key in missing]


def refuse_fusion() -> None:
    """torch folds a batch norm into the convolution before it by setting its weight; with an
    implicit bias between the two the result would be another network."""
    caller = sys._getframe(2).f_globals.get("__name__", "")
    if caller in ("torch.nn.utils.fusion", "torch.fx.experimental.optimization"):
        raise RuntimeError(
            "a batch norm cannot be fused into a layer with an implicit bias, which is not linear"
        )
