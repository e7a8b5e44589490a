"""The solves of the compiled engine where all rows have the same strength, slope and tolerance.

A tensor takes some microseconds to be made and as long to be looked at, and a solve of short rows
only a dozen. So what is said of rows is written into plain memory here, looked at as bytes and
numbers of Python, and becomes tensors only where somebody asks.
"""

import ctypes
import struct
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ibnn.engine.base import AT_SADDLE, Case
from ibnn.engine.native import calls
from ibnn.engine.native.calls import SIGMAS

# residual, steps and solved of each row, when they are asked for
Verdicts = Callable[[], tuple[Tensor, Tensor, Tensor]]
# what all rows have comes first in the memory of a solve: strength, tolerance, slope
_write_given = struct.Struct("3d").pack_into
_GIVEN = 24
# so many numbers are added by Python before torch has done so (12 ns each, against 3 us)
_FEW = 256


def solve(
    case: Case,
    y: Tensor,
    strength: float,
    slope: float,
    weight: Tensor | None,
    atol: float,
    resolution: float,
) -> tuple[Tensor, Verdicts, Callable[[], Tensor]] | None:
    """As `Engine.solve`, for contiguous y of any shape; above the threshold also of which rows no
    other solution is near. None unless all are solved."""
    z, rows = torch.empty_like(y), case.rows
    units = y.numel() // rows
    memory = bytearray(_GIVEN + 14 * rows)
    if units == 1:  # it has no pairs: nothing is written of it, and J is 1 for every lam
        memory[_GIVEN + 13 * rows :] = b"\1" * rows
    _write_given(memory, 0, strength, atol, slope)
    given = _address(memory)
    residual = given + _GIVEN
    coupled, _kept = _coupled(case, weight)
    calls.run(
        "find_roots" if weight is None else "find_weighted_roots",
        y.dtype,
        y.data_ptr(),
        *(given, given + 8, given + 16),
        *(rows, units, 0),
        *coupled,
        *(resolution, SIGMAS[case.sigma.name]),
        z.data_ptr(),
        *(residual, residual + 8 * rows, residual + 12 * rows),
        *((residual + 13 * rows,) if weight is None else ()),
    )
    if memory.find(0, _GIVEN + 12 * rows, _GIVEN + 13 * rows) >= 0:  # a row that is not solved
        return None
    return z, partial(_verdicts, memory, rows), partial(_part, memory, rows, torch.bool, 13)


def adjoint(
    case: Case, z: Tensor, g: Tensor, strength: float, weight: Tensor | None, allowed: float
) -> "tuple[Tensor, memoryview[float], Tensor | None] | None":
    """As `Engine.adjoint`, for contiguous z and g of any shape: v, v . B(z) of each row as doubles,
    and the errors of all rows if some are at a saddle; None if another is larger than allowed."""
    v, rows = torch.empty_like(z), case.rows
    memory = bytearray(_GIVEN + 16 * rows)
    _write_given(memory, 0, strength, 0, 0)
    given = _address(memory)
    coupled, _kept = _coupled(case, weight)
    calls.run(
        "solve_jacobian" if weight is None else "solve_weighted_jacobian",
        z.dtype,
        *(z.data_ptr(), g.data_ptr(), given),
        *(rows, z.numel() // rows, 0),
        *coupled,
        SIGMAS[case.sigma.name],
        *(v.data_ptr(), given + _GIVEN, given + _GIVEN + 8 * rows),
    )
    numbers = memoryview(memory).cast("d")[3:]
    errors = numbers[:rows]
    # none is above their sum, and a sum that is not a number is above everything
    if rows <= _FEW and sum(errors) <= allowed:
        return v, numbers[rows:], None
    found = torch.frombuffer(errors, dtype=torch.float64)
    if found.max().item() <= allowed:
        return v, numbers[rows:], None
    if bool(((found <= allowed) | (found == AT_SADDLE)).all()):
        return v, numbers[rows:], found
    return None


def total(numbers: "memoryview[float]") -> float:
    """The sum of doubles."""
    few = len(numbers) <= _FEW
    return sum(numbers) if few else torch.frombuffer(numbers, dtype=torch.float64).sum().item()


def _verdicts(memory: bytearray, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    part = partial(_part, memory, rows)
    return part(torch.float64, 0), part(torch.int32, 8), part(torch.bool, 12)


def _part(memory: bytearray, rows: int, dtype: torch.dtype, before: int) -> Tensor:
    return torch.frombuffer(memory, dtype=dtype, count=rows, offset=_GIVEN + before * rows)


def _address(memory: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _coupled(case: Case, weight: Tensor | None) -> tuple[tuple, object]:
    """The arguments that say how rows are weighted, and who owns their memory."""
    weights = calls.weights_of(case, weight)
    if weights is None:
        return (), None
    owners = weights.arguments(case.dtype)
    return tuple(a.data_ptr() if isinstance(a, Tensor) else a for a in owners), owners
