"""The other couplings: `Window` after a convolution, `Dense` after a linear map."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.bench import problems
from ibnn.lab.bench.memory import Call, Peak, Task, peaks
from ibnn.lab.bench.problems import forward, forward_backward
from ibnn.lab.bench.settings import BenchSettings
from ibnn.lab.bench.timing import interleave, ratio

# Neither has O(D) sums: every neighbour of every unit is added up, so the batches are small.
SIZES = {"Window(5, 5)": problems.Shape(16, 3, 32, 3, 5), "Dense": (16, 256)}
LAMS, STD = (-0.2, 0.03), 0.3


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    """One row per coupling and lam; neither depends on the engine of the uniform coupling."""
    cases = [(name, lam) for name in SIZES for lam in problems.choose(LAMS, settings.quick, 1)]
    tasks = [
        Task(f"{__name__}:{function}", {"name": name, "lam": lam})
        for name, lam in cases
        for function in ("standard_task", "implicit_task")
    ]
    found = peaks(tasks, "portable")
    return [
        time_layer(settings, *case, *found[2 * index : 2 * index + 2])
        for index, case in enumerate(cases)
    ]


def time_layer(
    settings: BenchSettings, name: str, lam: float, usual: Peak, ours: Peak
) -> dict[str, Any]:
    x, g, standard, implicit = layers(name, lam)
    candidates = {
        "standard forward": lambda: forward(standard, x),
        "standard both": lambda: forward_backward(standard, x, g),
        "implicit forward": lambda: forward(implicit, x),
        "implicit both": lambda: forward_backward(implicit, x, g),
    }
    times = interleave(candidates, (2, settings.rounds[1]), settings.seconds)
    last = implicit[0].last_solve
    return {
        "coupling": name,
        "shape": "x".join(map(str, g.shape)),
        "lam": lam,
        "ratio_both": ratio(times, "implicit both", "standard both"),
        "ratio_forward": ratio(times, "implicit forward", "standard forward"),
        "ms_both": times["implicit both"].milliseconds,
        "ms_forward": times["implicit forward"].milliseconds,
        "standard_ms_both": times["standard both"].milliseconds,
        "memory_added": (ours.bytes - usual.bytes) / (4 * g.numel()),
        "memory_method": ours.method,
        "residual": last.residual,
        "steps": last.steps,
        "converged": last.converged,
    }


def layers(name: str, lam: float) -> tuple[Tensor, Tensor, nn.Sequential, Any]:
    """x, the gradient that comes back, and the layer with a ReLU: standard, implicit."""
    size = SIZES[name]
    if isinstance(size, problems.Shape):
        made = problems.pair(size, lam, STD, coupling=ibnn.Window((5, 5)))
        return made.x, made.g, made.standard, made.implicit  # type: ignore[return-value]
    generator = torch.Generator().manual_seed(0)
    x, g = (torch.randn(size, generator=generator) for _ in range(2))
    units = size[1]
    linear = nn.Linear(units, units)
    with torch.no_grad():
        linear.weight.copy_(STD / units**0.5 * torch.randn((units, units), generator=generator))
    weight = torch.rand((units, units), generator=generator) * 2 / units
    layer = ibnn.Linear(units, units, lam=lam, coupling=ibnn.Dense(weight), on_failure="ignore")
    layer.load_state_dict(linear.state_dict(), strict=False)
    return x, g, nn.Sequential(linear, nn.ReLU()), nn.Sequential(layer, nn.ReLU())


def standard_task(name: str, lam: float) -> tuple[Call, Call]:
    x, g, standard, _ = layers(name, lam)
    call = functools.partial(forward_backward, standard, x, g)
    return call, call


def implicit_task(name: str, lam: float) -> tuple[Call, Call]:
    x, g, standard, implicit = layers(name, lam)

    def warm_up() -> None:
        forward_backward(standard, x, g)
        standard.zero_grad(set_to_none=True)
        small = x[:1].detach().requires_grad_(x.requires_grad)
        forward_backward(implicit, small, g[:1])

    return warm_up, functools.partial(forward_backward, implicit, x, g)
