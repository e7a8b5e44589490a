"""What the first call costs a new process: compilation once, then loading."""

import statistics
import subprocess
import sys
import tempfile
from typing import Any

from ibnn.lab.bench import engines
from ibnn.lab.bench.settings import BenchSettings

# Seconds from a finished `import torch` to the first gradient.
_SCRIPT = """
import time
import torch
start = time.perf_counter()
import ibnn
y = torch.linspace(-1, 1, 4096).reshape(4, 1024).requires_grad_()
ibnn.implicit_bias(y, -0.2).sum().backward()
print(time.perf_counter() - start)
"""


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    """The native engine with an empty cache (not in a quick run), and each engine as always."""
    rows: list[dict[str, Any]] = []
    repetitions = 1 if settings.quick else 5
    for engine in settings.engines:
        with tempfile.TemporaryDirectory() as empty:
            place = {} if settings.quick or engine != "native" else {"IBNN_CACHE": empty}
            if place:
                rows.append(_row(engine, "cold", [first_call(engine, place)]))
            first_call(engine, place)  # the operating system's file cache
            cached = [first_call(engine, place) for _ in range(repetitions)]
            rows.append(_row(engine, "cached", cached))
    return rows


def first_call(engine: str, place: dict[str, str]) -> float:
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT],
        env={**engines.environment(engine), **place},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise RuntimeError(f"the first call failed: {answer.stderr.strip()[-500:]}")
    return float(answer.stdout.splitlines()[-1])


def _row(engine: str, start: str, seconds: list[float]) -> dict[str, Any]:
    return {
        "engine": engine,
        "start": start,
        "seconds": statistics.median(seconds),
        "processes": len(seconds),
    }
