"""What the kernels do for a row, counted where they run, and what that would take on an A100.

    TRITON_INTERPRET=1 python -m benchmarks.gpu_estimate --units 1024

An estimate, not a measurement: Triton's interpreter runs one row as a GPU would run it, and each
operation is counted with the instructions that it takes a warp (32 threads): one for every 32
elements, and at least one for each warp, since all of them compute what is small; an exponential 2,
a division 8, a sum over threads 10 more. A tensor is read from memory once, then from a cache. The
time is that of the instructions at half the rate at which an A100 can issue them, or that of the
bytes, whichever is longer, for as many rows as fill it.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import ibnn
from ibnn.engine.triton import reason_missing

# of an A100 (80 GB): multiprocessors, instructions of a warp in a cycle of each, cycles, memory
PROCESSORS, ISSUED, HERTZ, BANDWIDTH = 108, 4, 1.41e9, 1.9e12
# what of that is reached by code that is well occupied: an assumption
EFFICIENCY = 0.5
INSTRUCTIONS = {np.exp: 2, np.log: 2, np.divide: 8, np.sqrt: 8}


class Work:
    """Instructions of warps and bytes moved, kernel by kernel."""

    def __init__(self) -> None:
        self.instructions: defaultdict[str, float] = defaultdict(float)
        self.moved: defaultdict[str, float] = defaultdict(float)  # bytes, cached or not
        self.kernel, self.warps = "", 1

    def add(self, elements: int, each: float = 1, once: float = 0) -> None:
        """`each` for 32 elements, at least 1 for each warp, and `once` more for each warp."""
        self.instructions[self.kernel] += max(elements / 32, self.warps) * each + once * self.warps


@contextmanager
def counted(work: Work) -> Iterator[None]:
    """Inside, whatever the interpreter does is added to `work`."""
    from triton.runtime import interpreter

    from ibnn.engine.triton import launch

    Builder: Any = type(interpreter.interpreter_builder)
    before = []

    def replace(owner: Any, name: str, make: Any) -> None:
        own = getattr(owner, name)
        before.append((owner, name, own))
        setattr(owner, name, make(own))

    def elementwise(own):
        def run(self, *args):
            result = own(self, *args)
            work.add(result.data.size, INSTRUCTIONS.get(args[-1], 1))
            return result

        return run

    def memory(own):
        def run(self, ptrs, *args):
            work.add(ptrs.data.size)
            mask = next((a for a in args if getattr(a, "dtype", None) is not None
                         and a.data.dtype == np.bool_), None)  # fmt: skip
            work.moved[work.kernel] += 4 * (ptrs.data.size if mask is None else mask.data.sum())
            return own(self, ptrs, *args)

        return run

    def across_threads(own):
        def run(self, inputs):
            work.add(inputs[0].handle.data.size * len(inputs), 1, 10)
            return own(self, inputs)

        return run

    def scan(own):
        def run(self, inputs):
            # each thread its own elements, then 5 steps among the threads of a warp, then all again
            elements, kept = inputs[0].handle.data.size, work.instructions[work.kernel]
            found = own(self, inputs)
            work.instructions[work.kernel] = kept
            work.add(elements, 2 * (2 * len(inputs) - 1), 5 * (2 * len(inputs) - 1) + 20)
            return found

        return run

    def launched(own):
        def run(self, *args, grid, warmup, **kwargs):
            work.kernel, work.warps = self.fn.__name__, kwargs.get("num_warps", 4)
            return own(self, *args, grid=grid, warmup=warmup, **kwargs)

        return run

    for name in ("binary_op", "unary_op", "ternary_op"):
        replace(Builder, name, elementwise)
    for name in ("create_masked_load", "create_masked_store"):
        replace(Builder, name, memory)
    replace(interpreter.ReduceOps, "apply_impl", across_threads)
    replace(interpreter.ScanOps, "generic_scan", scan)
    replace(interpreter.InterpretedFunction, "run", launched)
    replace(launch, "_at_once", lambda own: lambda rows, elements, most: most)
    try:
        yield
    finally:
        for owner, name, own in reversed(before):
            setattr(owner, name, own)


def line(units: int, lam: float, std: float, rows: int) -> str:
    """One row of normal units there and back, and the time that `rows` of them would take."""
    y = std * torch.randn(1, units, generator=torch.Generator().manual_seed(0))
    strength = torch.tensor(lam, requires_grad=True)
    work = Work()
    with counted(work):
        z = ibnn.implicit_bias(y.requires_grad_(), strength, engine="triton")
        torch.autograd.grad(z, (y, strength), torch.ones_like(z))
    total = sum(work.instructions.values())
    busy = rows * total / (PROCESSORS * ISSUED * HERTZ * EFFICIENCY)
    # y, z, slope * z, dL/dz, dL/dy: each once from or to memory
    through = rows * 4 * units * 7 / BANDWIDTH
    parts = ", ".join(f"{k} {v / 1e3:.0f}k" for k, v in work.instructions.items())
    return (
        f"| {units} | {lam:g} | {std:g} | {total / 1e3:.0f}k | "
        f"{sum(work.moved.values()) / 1024:.0f} KB | {4 * units * 7 / 1024:.0f} KB | "
        f"{1e3 * max(busy, through):.2f} | {parts} |"
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_estimate")
    parser.add_argument("--units", type=int, nargs="+", default=[1024], help="lengths of rows")
    parser.add_argument("--rows", type=int, default=2048, help="rows of the estimate")
    chosen = parser.parse_args(arguments)
    if os.environ.get("TRITON_INTERPRET") != "1" or reason_missing("cpu") is not None:
        raise SystemExit("needs Triton and TRITON_INTERPRET=1 in the environment")
    print(
        "| units | lam | std | instructions of warps | read and written | of that in memory | "
        f"ms of {chosen.rows} rows, estimated | kernels |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for units in chosen.units:
        for lam, std in ((-0.2, 0.1), (0.08, 0.1), (-0.2, 1.0), (0.08, 1.0)):
            print(line(units, lam, std, chosen.rows), flush=True)


if __name__ == "__main__":
    main()
