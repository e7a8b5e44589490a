"""Dense coupling: a symmetric D x D matrix of weights, given or learnt."""

import zlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ibnn.coupling.coupling import Coupling


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
        if weight is None:
            if not isinstance(units, int) or units < 1:
                raise ValueError(f"Dense needs a weight or units >= 1, got units={units!r}")
            weight = torch.full((units, units), 1 / units)
        weight = torch.as_tensor(weight).detach().clone()
        if weight.ndim != 2 or weight.shape[0] != weight.shape[1] or not len(weight):
            raise ValueError(f"weight must be a D x D matrix, got shape {tuple(weight.shape)}")
        if units is not None and len(weight) != units:
            raise ValueError(f"weight has {len(weight)} units, but units={units}")
        if not weight.is_floating_point():
            raise TypeError(f"weight must be a floating-point matrix, got {weight.dtype}")
        if not (weight >= 0).all() or not weight.isfinite().all():
            raise ValueError("weight must be finite and non-negative (w_ik >= 0)")
        self.learnable = learnable
        if learnable:
            self.raw = nn.Parameter(weight)
        else:
            self.register_buffer("raw", weight, persistent=False)
        self._eigenvalue: float | None = None

    def weight(
        self, dtype: torch.dtype | None = None, units: Sequence[int] | None = None
    ) -> Tensor:
        raw = self.raw.to(dtype)
        symmetric = (raw + raw.T) / 2
        return symmetric.abs() if self.learnable else symmetric

    def largest_eigenvalue(self) -> "float | Tensor":
        if self.learnable:
            # Gershgorin: an eigenvalue at every step of training would cost more than the layer
            weight = self.weight()
            return 2 * (weight.sum(1) - weight.diagonal()).amax()
        if self._eigenvalue is None:
            weight = self.weight(torch.float64)
            laplacian = torch.diag(weight.sum(1)) - weight
            self._eigenvalue = max(0.0, float(torch.linalg.eigvalsh(laplacian)[-1]))
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
        numbers = self.raw.detach().to("cpu", torch.float32).contiguous().numpy().tobytes()
        return {**chosen, "crc32": zlib.crc32(numbers)}

    def extra_repr(self) -> str:
        return f"units={len(self.raw)}" + (", learnable=True" if self.learnable else "")
