"""One layer forward and backward, against the same `nn.Conv2d` + ReLU without implicit bias."""

import functools
from dataclasses import asdict
from typing import Any

import ibnn
from ibnn.lab.bench import engines
from ibnn.lab.bench.memory import Call, MemoryTask, Peak, peaks
from ibnn.lab.bench.problems import (
    MAPS,
    SHAPES,
    References,
    Shape,
    choose,
    forward,
    forward_backward,
    pair,
)
from ibnn.lab.bench.settings import BenchSettings
from ibnn.lab.bench.timing import interleave, ratio

CONDITIONS = [(lam, std) for lam in (-0.2, 0.08, -0.05, 0.03) for std in (0.1, 1.0)]
HARD = (-1.0, 0.3)
# Memory hardly depends on lam and std: one with many nodes and the hardest are enough.
WEIGHED = ((-0.2, 1.0), HARD)


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    shapes = SHAPES[:3:2] if settings.quick else SHAPES
    conditions = [*choose(CONDITIONS, settings.quick, 3), HARD]
    cases = [(shape, *condition) for shape in shapes for condition in conditions]
    weighed = [case for case in cases if case[1:] in WEIGHED]
    memory = {
        (engine, case): columns
        for engine in settings.engines
        for case, columns in zip(weighed, _memory(weighed, engine), strict=True)
    }
    return [
        {**row, **memory.get((row["engine"], case), {})}
        for case in cases
        for row in time_layer(settings, *case)
    ]


def time_layer(
    settings: BenchSettings, shape: Shape, lam: float, std: float, sigma: str = "tanh"
) -> list[dict[str, Any]]:
    """One row per engine; all of them and the standard layer are timed in turn."""
    layers = pair(shape, lam, std, sigma=sigma)
    x, g = layers.x, layers.g
    candidates: dict[str, Call] = {
        "standard forward": lambda: forward(layers.standard, x),
        "standard both": lambda: forward_backward(layers.standard, x, g),
    }
    for engine in settings.engines:
        candidates[f"{engine} forward"] = engines.by(engine, forward, layers.implicit, x)
        candidates[f"{engine} both"] = engines.by(engine, forward_backward, layers.implicit, x, g)
    times = interleave(candidates, settings.rounds, settings.seconds)
    references = References(layers.y, lam, settings.reference_rows, sigma=sigma)
    return [
        {
            "shape": shape.name,
            "lam": lam,
            "std": std,
            "engine": engine,
            "ratio_both": ratio(times, f"{engine} both", "standard both"),
            "ratio_forward": ratio(times, f"{engine} forward", "standard forward"),
            "ms_both": times[f"{engine} both"].milliseconds,
            "ms_forward": times[f"{engine} forward"].milliseconds,
            "standard_ms_both": times["standard both"].milliseconds,
            "standard_ms_forward": times["standard forward"].milliseconds,
            "rounds": len(times["standard both"].seconds),
            "spread": times[f"{engine} both"].spread,
            "hard": (lam, std) == HARD,
            **references.judge(engine),
        }
        for engine in settings.engines
    ]


def _memory(cases: list[tuple[Shape, float, float]], engine: str) -> list[dict[str, Any]]:
    """Per case, in multiples of y: what the bias needs alone, and what it adds to the layer."""
    shapes = list(dict.fromkeys(shape for shape, _, _ in cases))
    tasks = [_task("standard_task", shape, 0.0, 1.0) for shape in shapes]
    for case in cases:
        tasks += [_task("implicit_task", *case), _task("bias_task", *case)]
    found = peaks(tasks, engine)
    standard = dict(zip(shapes, found, strict=False))
    rest = found[len(shapes) :]
    return [
        memory_columns(standard[shape], *rest[2 * index : 2 * index + 2], unit=shape.bytes)
        for index, (shape, _, _) in enumerate(cases)
    ]


def _task(function: str, shape: Shape, lam: float, std: float) -> MemoryTask:
    return MemoryTask(f"{__name__}:{function}", {"shape": asdict(shape), "lam": lam, "std": std})


def memory_columns(standard: Peak, implicit: Peak, bias: Peak, unit: int) -> dict[str, Any]:
    """`memory` is the larger of the two ways to look at it, and is the one that is judged."""
    alone = bias.bytes / unit
    added = (implicit.bytes - standard.bytes) / unit
    return {
        "memory": max(alone, added),
        "memory_alone": alone,
        "memory_added": added,
        "memory_alone_torch": bias.torch / unit,
        "memory_method": bias.method,
    }


def standard_task(shape: dict[str, int], lam: float, std: float) -> tuple[Call, Call]:
    layers = pair(Shape(**shape), lam, std)
    call = functools.partial(forward_backward, layers.standard, layers.x, layers.g)
    return call, call


def implicit_task(shape: dict[str, int], lam: float, std: float) -> tuple[Call, Call]:
    layers = pair(Shape(**shape), lam, std)
    small = layers.x[:1].detach().requires_grad_(layers.x.requires_grad)

    def warm_up() -> None:
        # the convolution at full size, as for the standard layer; the implicit bias at a small one
        forward_backward(layers.standard, layers.x, layers.g)
        layers.standard.zero_grad(set_to_none=True)
        layers.x.grad = None
        forward_backward(layers.implicit, small, layers.g[:1])

    return warm_up, functools.partial(forward_backward, layers.implicit, layers.x, layers.g)


def bias_task(shape: dict[str, int], lam: float, std: float) -> tuple[Call, Call]:
    """F alone: beyond y and the gradient that comes in, both of which are there before."""
    layers = pair(Shape(**shape), lam, std)
    bias = ibnn.ImplicitBias(lam, coupling=ibnn.Uniform(MAPS), on_failure="ignore")
    y = layers.y.requires_grad_()
    small = y[:1].detach().clone().requires_grad_()
    return (
        functools.partial(forward_backward, bias, small, layers.g[:1]),
        functools.partial(forward_backward, bias, y, layers.g),
    )
