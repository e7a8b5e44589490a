"""Our layer beside what a user could put in its place, on the same equation and the same maps."""

from typing import Any

import torch
from torch import Tensor, nn

from ibnn.lab.bench import engines, solvers
from ibnn.lab.bench.memory import Call, MemoryTask, peaks
from ibnn.lab.bench.problems import (
    References,
    Shape,
    choose,
    forward,
    forward_backward,
    pair,
)
from ibnn.lab.bench.settings import BenchSettings
from ibnn.lab.bench.timing import interleave, ratio

# Summing every pair keeps D numbers per unit and step for the backward pass: only few rows fit.
SHAPES = {"fast": Shape(128, 1, 28, 3, 4), "direct": Shape(4, 1, 28, 3, 4)}
# At -0.2 the plain iteration does not contract (|lam| * slope = 2); at the others it does.
LAMS, STD = (-0.05, 0.03, -0.2), 0.1


class Layer(nn.Module):
    """Convolution, a way to solve, ReLU."""

    def __init__(self, conv: nn.Module, solve: solvers.Solve, lam: float) -> None:
        super().__init__()
        self.conv, self.solve, self.steps = conv, solve, 0
        self.lam = nn.Parameter(torch.tensor(lam))

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        z, self.steps = self.solve(y.flatten(0, 1).flatten(1), self.lam)
        return torch.relu(z.reshape(y.shape))


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    """With the fastest engine asked for; a peer that is not installed has no rows."""
    engine = settings.engines[0]
    lams = choose(LAMS, settings.quick, 1)
    cases = [(sums, name) for sums in SHAPES for name in solvers.candidates(sums)]
    tasks = [
        MemoryTask(f"{__name__}:memory_task", {"sums": sums, "name": name}) for sums, name in cases
    ]
    memory = {case: peak.bytes for case, peak in zip(cases, peaks(tasks, engine), strict=True)}
    rows = []
    with engines.using(engine):
        for sums, shape in SHAPES.items():
            for lam in lams:
                for row in compare(settings, shape, sums, lam):
                    weight = memory[sums, row["peer"]] / shape.bytes if lam == LAMS[0] else None
                    rows.append({**row, "memory_layer": weight, "engine": engine})
    return rows


def compare(settings: BenchSettings, shape: Shape, sums: str, lam: float) -> list[dict[str, Any]]:
    made = pair(shape, lam, STD)
    x, g, conv = made.x, made.g, made.standard[0]  # type: ignore[index]
    layers = {
        name: Layer(conv, solve, lam).train() for name, solve in solvers.candidates(sums).items()
    }
    calls: dict[str, Call] = {"conv": lambda: forward_backward(made.standard, x, g)}
    calls |= {name: _both(layer, x, g) for name, layer in layers.items()}
    calls |= {f"{name} forward": _forward(layer, x) for name, layer in layers.items()}
    times = interleave(calls, (3, settings.rounds[1]), settings.seconds)
    references = References(made.y, lam, settings.reference_rows)
    rows = []
    for name, layer in layers.items():
        error, gradient_error = _errors(layer, references)
        rows.append(
            {
                "shape": shape.name,
                "sums": sums,
                "lam": lam,
                "peer": name,
                "ratio_to_ours": ratio(times, name, "ibnn"),
                "ratio_to_conv": ratio(times, name, "conv"),
                "ms_both": times[name].milliseconds,
                "ms_forward": times[f"{name} forward"].milliseconds,
                "error": error,
                "gradient_error": gradient_error,
                "steps": layer.steps,
            }
        )
    return rows


def _both(layer: Layer, x: Tensor, g: Tensor) -> Call:
    return lambda: forward_backward(layer, x, g)


def _forward(layer: Layer, x: Tensor) -> Call:
    return lambda: forward(layer, x)


def _errors(layer: Layer, references: References) -> tuple[float, float]:
    y = references.y.clone().requires_grad_()
    z, _ = layer.solve(y, layer.lam)
    z.backward(references.g)
    assert y.grad is not None
    return references.compare(z.detach(), y.grad)


def memory_task(sums: str, name: str) -> tuple[Call, Call]:
    """The whole layer, convolution included."""
    made = pair(SHAPES[sums], LAMS[0], STD)
    layer = Layer(made.standard[0], solvers.candidates(sums)[name], LAMS[0])  # type: ignore[index]

    def warm_up() -> None:
        forward_backward(made.standard, made.x, made.g)
        made.standard.zero_grad(set_to_none=True)
        forward_backward(layer, made.x[:1].detach(), made.g[:1])

    return warm_up, _both(layer, made.x, made.g)
