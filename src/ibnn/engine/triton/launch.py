"""The kernels as functions of tensors: what is allocated, which kernels run, with which sizes.

Every launch follows from shapes, never from data, so that nothing waits for the device and a graph
can capture it: rows are offered to one kernel after the other, and each takes those it is made for
and leaves the rest. Kernels are compiled for a number of nodes and a block size, nothing else.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from ibnn.engine.triton import SHORT, SORTED, node_rows, pair_sums, short_rows, sorted_rows
from ibnn.engine.triton.chebyshev import tables
from ibnn.engine.triton.nonlinearity import CODES
from ibnn.engine.triton.rows import SOLVED
from ibnn.engine.triton.sums import EXPONENTIALS

# units on either side of a tile of pairs
PAIRS = 128
# elements of the largest tensor of a program with several rows: 16 registers of 128 threads (with
# 32, rows of 8 units spill)
ELEMENTS = 2048
# a x + b in one rounding, which is more accurate too; by default in some versions of Triton only
FUSED = {"enable_fp_fusion": True}


class Level(NamedTuple):
    """Nodes that a row is offered, the units read at a time, and the warps that share it.

    Sizes of the blocks and warps are those that leave registers for three programs and more on a
    multiprocessor with up to 64 nodes, and spill next to nothing (docs/performance.md).
    """

    nodes: int
    block: int
    warps: int

    @property
    def running(self) -> bool:
        """Whether sums over the nodes are running sums; over few, all pairs are summed."""
        return self.nodes > 64


NARROW = (Level(32, 512, 2), Level(64, 512, 4))
# instead of sorting
LONG = (*NARROW, Level(256, 1024, 8), Level(1024, 1024, 8))


def solve(
    y: Tensor, strength: Tensor, slope: Tensor, atol: Tensor, resolution: float, sigma: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z, and of each row the largest residual of slope * z, the steps, and whether it is solved."""
    y = y.detach().contiguous()
    rows, units = y.shape
    z, residual = torch.empty_like(y), y.new_empty(rows)
    steps = torch.empty(rows, dtype=torch.int32, device=y.device)
    state = torch.zeros(rows, dtype=torch.int8, device=y.device)
    arguments = (y, z, *_per_row(y, strength, slope, atol), residual, steps, state)
    with _on(y):
        if units <= SHORT:
            points, at_once = _short(rows, units)
            short_rows.solve_short_rows[(triton.cdiv(rows, at_once),)](
                *arguments, rows, units, resolution,
                SIGMA=CODES[sigma], R=at_once, N=points, num_warps=4, **FUSED,
            )  # fmt: skip
        else:
            table = _exponentials(y.device)
            for level, block, at_once in _levels(rows, units):
                work = y.new_empty(rows, 2, level.nodes)
                node_rows.solve_on_nodes[(triton.cdiv(rows, at_once),)](
                    *arguments, tables(level.nodes, y.device), table, work,
                    rows, units, resolution,
                    S=level.nodes, SORTED=level.running, R=at_once, BLOCK=block,
                    num_warps=level.warps, **FUSED,
                )  # fmt: skip
            if units <= SORTED:
                points, at_once = _sorted(rows, units)
                sorted_rows.solve_sorted_rows[(triton.cdiv(rows, at_once),)](
                    *arguments, table, rows, units, resolution,
                    R=at_once, N=points, num_warps=_warps(points), **FUSED,
                )  # fmt: skip
    return z, residual, steps, state == SOLVED.value


def solve_adjoint(
    z: Tensor, g: Tensor, strength: Tensor, sigma: str
) -> tuple[Tensor, Tensor, Tensor]:
    """v with J(z) v = g, and of each row its relative error and v . B(z)."""
    z, g = z.detach().contiguous(), g.detach().contiguous()
    rows, units = z.shape
    v, error, dot = torch.empty_like(g), z.new_empty(rows), z.new_empty(rows)
    arguments = (z, g, v, *_per_row(z, strength), error, dot)
    with _on(z):
        if units <= SHORT:
            points, at_once = _short(rows, units)
            short_rows.adjoint_short_rows[(triton.cdiv(rows, at_once),)](
                *arguments, rows, units, SIGMA=CODES[sigma], R=at_once, N=points,
                num_warps=4, **FUSED,
            )  # fmt: skip
        else:
            state = torch.zeros(rows, dtype=torch.int8, device=z.device)
            table = _exponentials(z.device)
            for level, block, at_once in _levels(rows, units):
                work = z.new_empty(rows, 2, level.nodes)
                node_rows.adjoint_on_nodes[(triton.cdiv(rows, at_once),)](
                    *arguments, state, tables(level.nodes, z.device), table, work, rows, units,
                    S=level.nodes, SORTED=level.running, R=at_once, BLOCK=block,
                    num_warps=level.warps, **FUSED,
                )  # fmt: skip
            if units <= SORTED:
                points, at_once = _sorted(rows, units)
                sorted_rows.adjoint_sorted_rows[(triton.cdiv(rows, at_once),)](
                    *arguments, state, table, rows, units,
                    R=at_once, N=points, num_warps=_warps(points), **FUSED,
                )  # fmt: skip
    return v, error, dot


def pair_sum(z: Tensor, a: Tensor | None, order: int, sigma: str) -> Tensor:
    """(1/D) sum_k a_k s_n(z_k - z_i) for every unit i of every row."""
    z = z.detach().contiguous()
    rows, units = z.shape
    out = torch.empty_like(z)
    block = min(PAIRS, max(16, triton.next_power_of_2(units)))
    with _on(z):
        pair_sums.sum_pairs[(rows, triton.cdiv(units, block))](
            z, z if a is None else a.detach().contiguous(), out, units,
            ORDER=order, WEIGHTED=a is not None, SIGMA=CODES[sigma], BLOCK=block,
            num_warps=4, **FUSED,
        )  # fmt: skip
    return out


def interpreted() -> bool:
    return triton.knobs.runtime.interpret


def _levels(rows: int, units: int) -> Iterator[tuple[Level, int, int]]:
    """The nodes that rows of this length are offered, with the block and the rows of a program."""
    for level in NARROW if units <= SORTED else LONG:
        block = min(level.block, triton.next_power_of_2(units))
        yield level, block, _at_once(rows, max(block, level.nodes * min(64, level.nodes)), 1)


def _short(rows: int, units: int) -> tuple[int, int]:
    points = max(2, triton.next_power_of_2(units))
    # of very short rows the vectors count, not the pairs
    elements = points * max(8, points)
    return points, _at_once(rows, elements, max(1, ELEMENTS // elements))


def _sorted(rows: int, units: int) -> tuple[int, int]:
    points = triton.next_power_of_2(units)
    return points, _at_once(rows, points, 1)


def _warps(points: int) -> int:
    """Of a program that holds a row of so many units: four units to a thread, up to 16 warps."""
    return min(16, max(1, points // 128))


def _at_once(rows: int, elements: int, most: int) -> int:
    """The rows of one program, each with so many elements of its largest tensor."""
    if interpreted():
        # where a program is a series of calls of numpy, the fewer programs the better
        return min(triton.next_power_of_2(rows), max(1, (1 << 19) // elements))
    return most


def _per_row(y: Tensor, *values: Tensor) -> Iterator[Tensor]:
    return (v.detach().to(torch.float32).expand(len(y)).contiguous() for v in values)


def _on(y: Tensor) -> AbstractContextManager:
    """Triton launches on the current device, which need not be that of the tensors."""
    return torch.cuda.device(y.device) if y.device.type == "cuda" else nullcontext()


@lru_cache(maxsize=32)
def _exponentials(device: torch.device) -> Tensor:
    return torch.tensor(EXPONENTIALS, device=device)
