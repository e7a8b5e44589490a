"""Layers with and without the implicit bias on one device, timed by its own events: one table.

Every line is a layer forward and backward (`lam` learnt) beside the same layer without the implicit
bias: medians in milliseconds, measured in turns. `error` is the largest |z_i - exact| / max(1, |z|)
of a few rows, exact as the portable engine finds it in float64; `solved` the fraction of rows.
"""

import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

import ibnn
from ibnn.engine import case_of, engines
from ibnn.lab.training.device import describe

CONDITIONS = ((-0.2, 0.1), (-0.2, 1.0), (0.08, 0.1), (0.08, 1.0))
ENGINES = ("triton", "portable")
HEADER = (
    "| layer | lam | std | engine | standard ms | ibnn ms | ratio | error | solved |",
    "|---|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Problem:
    """A standard layer, and the shape of its input."""

    name: str
    standard: Callable[[], nn.Module]
    shape: tuple[int, ...]

    def layers(
        self, lam: float, std: float, device: torch.device
    ) -> tuple[nn.Module, ibnn.ImplicitLayer, Tensor]:
        """The layer without and with the implicit bias, units spread by `std`, and an input."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            standard, x = self.standard(), torch.randn(self.shape)
        with torch.no_grad():
            few = standard(x[:8])
            units = few.flatten(2) if few.ndim == 4 else few
            scale = std / units.var(-1).mean().sqrt()
            for parameter in standard.parameters():
                parameter.mul_(scale)
        (implicit,) = ibnn.convert(nn.Sequential(standard), lam, skip_head=False)
        assert isinstance(implicit, ibnn.ImplicitLayer)
        return standard.to(device), implicit.to(device), x.to(device)


# two that even an interpreter of the kernels can do
TINY = (
    Problem("conv 2x1x9x9 -> 2", partial(nn.Conv2d, 1, 2, 3, padding="same"), (2, 1, 9, 9)),
    Problem("linear 4x8 -> 20", partial(nn.Linear, 8, 20), (4, 8)),
)
PROBLEMS = (
    *(
        Problem(f"conv 128x{c}x32x32 -> {c}", partial(nn.Conv2d, c, c, 5, padding="same"),
                (128, c, 32, 32))
        for c in (16, 64)
    ),
    *(
        Problem(f"linear 4096x{f} -> {f}", partial(nn.Linear, f, f), (4096, f))
        for f in (64, 256, 1024, 4096)
    ),
)  # fmt: skip


def lines(device: torch.device, problems: tuple[Problem, ...], rounds: int) -> Iterator[str]:
    """The table, line by line as it is measured: where, header, measurements."""
    yield place(device)
    yield from HEADER
    for problem in problems:
        for lam, std in CONDITIONS[:1] if problems is TINY else CONDITIONS:
            standard, implicit, x = problem.layers(lam, std, device)
            with torch.no_grad():
                y = standard(x)
            g = torch.randn_like(y)
            for engine in ENGINES:
                begin = f"| {problem.name} | {lam:g} | {std:g} | {engine} |"
                reason = _declined(engine, implicit, y)
                if reason is not None:
                    yield f"{begin} {reason} | | | | |"
                    continue
                implicit.engine = engine
                calls = {"standard": _both(standard, x, g), "ibnn": _both(implicit, x, g)}
                times = milliseconds(calls, device, rounds)
                error, solved = _accuracy(implicit, y)
                ratio = times["ibnn"] / times["standard"]
                yield (
                    f"{begin} {times['standard']:.3f} | {times['ibnn']:.3f} | {ratio:.2f} | "
                    f"{error:.1e} | {solved:.3f} |"
                )


def milliseconds(
    calls: dict[str, Callable[[], object]], device: torch.device, rounds: int
) -> dict[str, float]:
    """The median of each call, in turns; two turns before are not counted."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 2):
        for name, call in calls.items():
            if device.type == "cuda":
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                call()
                end.record()
                end.synchronize()
                spent = begin.elapsed_time(end)
            else:
                _finish(device)
                before = time.perf_counter()
                call()
                _finish(device)
                spent = 1e3 * (time.perf_counter() - before)
            if turn >= 2:
                taken[name].append(spent)
    return {name: statistics.median(values) for name, values in taken.items()}


def _finish(device: torch.device) -> None:
    """Waits for what was launched, where there are no events to ask (MPS, XPU)."""
    if device.type != "cpu":
        torch.accelerator.synchronize()


def place(device: torch.device) -> str:
    """What the table is measured on."""
    try:
        import triton  # pyright: ignore[reportMissingImports]

        version = triton.__version__
    except ImportError:
        version = "absent"
    versions = f"torch {torch.__version__}, triton {version}, ibnn {ibnn.__version__}"
    name = platform.processor() or platform.machine()
    return f"{describe(device) if device.type != 'cpu' else f'{name} (cpu)'}, {versions}"


def _both(layer: nn.Module, x: Tensor, g: Tensor) -> Callable[[], object]:
    wanted = [p for p in layer.parameters() if p.requires_grad]
    return lambda: torch.autograd.grad(layer(x), wanted, g)


def _accuracy(layer: ibnn.ImplicitLayer, y: Tensor) -> tuple[float, float]:
    """The error of the first rows, and the fraction of all that is solved."""
    lam = layer.effective_lam.detach()
    found = ibnn.solve(y, lam, coupling=layer.coupling, engine=layer.engine, on_failure="ignore")
    # on the processor, since not every device has doubles
    few, lam = y[:1].cpu().double(), lam.cpu().double()
    exact = ibnn.implicit_bias(few, lam, coupling=layer.coupling, engine="portable")
    error = (found.value[:1].cpu() - exact).abs() / exact.abs().clamp_min(1)
    return error.max().item(), found.converged.float().mean().item()


def _declined(engine: str, layer: ibnn.ImplicitLayer, y: Tensor) -> str | None:
    """Why this engine cannot serve the layer's rows."""
    units = [y.shape[d] for d in layer.coupling.dims]
    rows = y.flatten(0, -1 - len(units)).flatten(1)
    case = case_of("solve", rows, layer.coupling.sums, layer.sigma, units)
    return engines()[engine].declines(case)
