"""The Triton engine: `Uniform` on GPUs, float32; forward, backward and the sums of second order.

Triton comes with the CUDA and ROCm builds of torch and is imported when it is needed first. With
TRITON_INTERPRET=1 its interpreter runs the kernels on the CPU, slowly: that is how they are tested.
"""

import importlib.util
import logging
import os
import time
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from ibnn import sigma as sigmas
from ibnn.engine.base import AdjointSolutions, Case, Engine, RowSolutions

# the first with tuples as arguments of functions in a kernel
OLDEST = (3, 3)
# rows of so many units and fewer are summed pair by pair: any sigma
SHORT = 64
# the longest row that one program can sort, and solve whatever its range
SORTED = 4096
# rows whose pairs are summed for second order: beyond, the portable engine is quicker
LONGEST_PAIRS = 4096
SIGMAS = ("tanh", "arctan", "erf")

log = logging.getLogger("ibnn")


class TritonEngine(Engine):
    """`Uniform` in float32 on a GPU: rows of any length for tanh, up to 64 units for arctan and
    erf, and their pair sums."""

    name = "triton"

    def declines(self, case: Case) -> str | None:
        if case.sums.name != "uniform":
            return f"it has nothing for {case.sums.name} weights"
        if case.sigma not in sigmas.BUILT_IN or case.sigma.name not in SIGMAS:
            return f"it has no sigma {case.sigma}"
        if case.dtype != torch.float32:
            return f"it has no {case.dtype}"
        units = _count(case.units)
        if units > SHORT and case.sigma.name != "tanh":
            return f"it has rows of more than {SHORT} units for tanh only"
        if case.operation == "pair_sum":
            if not 0 <= case.order <= 3:
                return f"it has sums of order 0 to 3, not {case.order}"
            if units > LONGEST_PAIRS:
                return f"it sums the pairs of rows of up to {LONGEST_PAIRS} units, not {units}"
        return reason_missing(case.device)

    def is_final(self, case: Case) -> bool:
        return _count(case.units) <= SORTED

    def solve(
        self,
        case: Case,
        y: Tensor,
        strength: Tensor,
        slope: Tensor,
        weight: Tensor | None,
        atol: Tensor,
        resolution: float,
    ) -> RowSolutions:
        from ibnn.engine.triton import launch

        found = launch.solve(y, strength, slope, atol, resolution, case.sigma.name)
        return RowSolutions(*found)

    def adjoint(
        self, case: Case, z: Tensor, g: Tensor, strength: Tensor, weight: Tensor | None
    ) -> AdjointSolutions:
        from ibnn.engine.triton import launch

        return AdjointSolutions(*launch.solve_adjoint(z, g, strength, case.sigma.name))

    def pair_sum(self, case: Case, z: Tensor, a: Tensor | None, weight: Tensor | None) -> Tensor:
        from ibnn.engine.triton import launch

        return launch.pair_sum(z, a, case.order, case.sigma.name)


def reason_missing(device: str) -> str | None:
    """Why nothing can be served on devices of this type; None if it can."""
    if device == "cpu":
        if not _interpreted():
            return "it is for GPUs (with TRITON_INTERPRET=1 the CPU runs it, slowly)"
    elif device != "cuda":
        return f"it is for CUDA and ROCm, not for {device}"
    return _missing()


def warm(device: "str | torch.device" = "cuda", units: Sequence[int] = (1024,)) -> dict[int, float]:
    """Compiles the kernels for rows of these lengths; the seconds that each length took.

    Triton keeps what it compiled on disk, so this is slow once for a machine and version. Kernels
    are shared by the lengths that a power of 2 covers (513 to 1024 units, say).

    Args:
        device: where the kernels will run.
        units: lengths of rows.
    """
    from ibnn.engine.triton import launch

    seconds = {}
    for count in units:
        began = time.perf_counter()
        y = torch.linspace(-0.1, 0.1, count, device=device).unsqueeze(0)
        one = torch.ones(1, device=device)
        z, *_ = launch.solve(10 * y, -one, one, 1e-5 * one, 2e-5, "tanh")
        launch.solve_adjoint(z, y, -one, "tanh")
        if z.device.type == "cuda":
            torch.cuda.synchronize(z.device)
        seconds[count] = time.perf_counter() - began
    return seconds


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def _count(units: Sequence[int]) -> int:
    total = 1
    for size in units:
        total *= size
    return total


@lru_cache(maxsize=1)
def _missing() -> str | None:
    """Why there is no Triton here; None if there is. Says so once in the log, too."""
    reason = None
    if importlib.util.find_spec("triton") is None:
        reason = "triton is not installed (pip install 'ibnn[triton]')"
    else:
        try:
            found = version("triton")
        except PackageNotFoundError:  # part of another distribution, as in some builds for ROCm
            found = ""
        parts = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
        if parts and parts < OLDEST:
            reason = f"triton {found} is too old, {'.'.join(map(str, OLDEST))} is needed"
    if reason is not None:
        log.info("GPUs are served by the portable engine: %s", reason)
    return reason
