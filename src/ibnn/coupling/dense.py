"""Dense coupling: a symmetric D x D matrix of weights, given or learnt."""

import zlib
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from ibnn._checks import check_flag, is_number
from ibnn._tensors import has_doubles
from ibnn.coupling.coupling import Coupling
from ibnn.coupling.sums import MATRIX, laplacian_eigenvalue


class Dense(Coupling):
    """w = (weight + weight^T) / 2 between the units of the last dim.

    Examples:
        >>> Dense(units=3).weight()[0]
        tensor([0.3333, 0.3333, 0.3333])

    Args:
        weight: a D x D matrix, finite and non-negative (default: 1/units everywhere).
        units: D, where no weight is given.
        learnable: whether the weights are parameters; they then act through their absolute value,
            so that w stays non-negative.
    """

    raw: Tensor

    def __init__(
        self, weight: Tensor | None = None, units: int | None = None, learnable: bool = False
    ) -> None:
        super().__init__()
        check_flag("learnable", learnable)
        device = weight.device if isinstance(weight, Tensor) else torch.get_default_device()
        if weight is None:
            if units is None or not is_number(units, Integral) or units < 1:
                raise ValueError(f"Dense needs a weight or units >= 1, got units={units!r}")
            weight = torch.full((units, units), 1 / units, device="cpu")
        weight = torch.as_tensor(weight, device="cpu").detach().clone()
        if weight.ndim != 2 or weight.shape[0] != weight.shape[1] or not len(weight):
            raise ValueError(f"weight must be a D x D matrix, got shape {tuple(weight.shape)}")
        if units is not None and len(weight) != units:
            raise ValueError(f"weight has {len(weight)} units, but units={units}")
        if not weight.is_floating_point():
            raise TypeError(f"weight must be a floating-point matrix, got {weight.dtype}")
        if not (weight >= 0).all() or not weight.isfinite().all():
            raise ValueError("weight must be finite and non-negative (w_ik >= 0)")
        self.learnable = learnable
        # a layer needs it when it leaves the meta device
        self._first_values = {"raw": weight}
        here = weight.to(device)
        if learnable:
            self.raw = nn.Parameter(here)
        else:
            self.register_buffer("raw", here, persistent=False)
        self._eigenvalue: float | None = None

    @property
    def given(self) -> Tensor:
        """A fixed matrix as the constructor was given it: on the CPU, not rounded since."""
        return self._first_values["raw"]

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        if not self.learnable and self.raw.dtype != self.given.dtype:
            # as exact as it was given, whatever the layer's dtype has been
            dtype = self.given.dtype if has_doubles(self.raw) else torch.float32
            self.raw = self.given.to(self.raw.device, dtype)
        return self

    def weight(
        self, dtype: torch.dtype | None = None, units: Sequence[int] | None = None
    ) -> Tensor:
        symmetric = _symmetric(self.raw.to(dtype))
        return symmetric.abs() if self.learnable else symmetric

    def largest_eigenvalue(self) -> "float | Tensor":
        if self.learnable:
            # an eigenvalue at every step of training would cost more than the layer
            return MATRIX.unread_bound(self.weight())
        if self._eigenvalue is None:
            self._eigenvalue = laplacian_eigenvalue(_symmetric(self.given.double()))
        return self._eigenvalue

    def check_units(self, units: Sequence[int]) -> None:
        if list(units) != [len(self.raw)]:
            raise ValueError(
                f"Dense coupling is for {len(self.raw)} units, but y has {units[0]} in its last dim"
            )

    def config(self) -> dict[str, Any]:
        """A given matrix is in no checkpoint: its checksum has to do."""
        chosen: dict[str, Any] = {"kind": "Dense", "units": len(self.raw)}
        if self.learnable:
            return {**chosen, "learnable": True}
        # not of `raw`, which half precision rounds
        numbers = self.given.float().contiguous().numpy().tobytes()
        return {**chosen, "crc32": zlib.crc32(numbers)}

    def extra_repr(self) -> str:
        return f"units={len(self.raw)}" + (", learnable=True" if self.learnable else "")


def _symmetric(raw: Tensor) -> Tensor:
    return (raw + raw.T) / 2
