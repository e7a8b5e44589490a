"""Uniform coupling: every unit is coupled to all units of its row with weight 1/D."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch

from ibnn._checks import is_number, shown
from ibnn.coupling.coupling import Coupling
from ibnn.coupling.sums import UNIFORM


class Uniform(Coupling):
    """w_ik = 1/D over the D units of `dims` (k = i is counted; it adds nothing).

    Examples:
        >>> Uniform(dims=(-2, -1))
        Uniform(dims=(-2, -1))

    Args:
        dims: the dims of y whose units form a row; all other dims are independent rows.
    """

    sums = UNIFORM

    def __init__(self, dims: int | Sequence[int] = -1) -> None:
        super().__init__()
        chosen = tuple(dims) if isinstance(dims, Sequence) else (dims,)
        if not chosen or not all(is_number(d, Integral) for d in chosen):
            raise ValueError(
                f"dims must be an int or a non-empty sequence of ints, got {shown(dims)}"
            )
        if len(set(chosen)) != len(chosen):
            raise ValueError(f"dims={dims!r} names a dim twice")
        self.dims = tuple(map(int, chosen))

    def weight(self, dtype: torch.dtype | None = None, units: Sequence[int] | None = None) -> None:
        return  # nothing to store

    def largest_eigenvalue(self) -> float:
        return 1.0

    def config(self) -> dict[str, Any]:
        return {"kind": "Uniform", "dims": list(self.dims)}

    def extra_repr(self) -> str:
        return f"dims={self.dims[0] if len(self.dims) == 1 else self.dims}"
