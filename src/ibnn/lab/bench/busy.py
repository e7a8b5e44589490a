"""The same solves on all threads, alone and with a spinning process on each core.

With as many spinning processes as cores, everything takes twice as long by fairness alone; threads
that wait for each other at every small step would take far longer.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ibnn.lab.bench.cliffs import cliffs
from ibnn.lab.bench.settings import BenchSettings
from ibnn.lab.bench.timing import interleave

# short rows, long rows, coupled channels, pairs in a window, pairs of a matrix
CASES = (
    "Linear 784 -> 32, 128 rows",
    "Conv2d k5, 128x3x32x32",
    "Conv2d k3, 16 coupled channels",
    "Window 5x5, 16x3x32x32",
    "Dense, Linear 256 -> 256, 16 rows",
)
STD = 1.0


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    rounds, seconds = ((3, 10), 0.5) if settings.quick else ((10, 40), 2.0)
    chosen = {cliff.name: cliff.calls(STD) for cliff in cliffs() if cliff.name in CASES}
    quiet = {name: interleave(calls, rounds, seconds) for name, calls in chosen.items()}
    with spinning(os.cpu_count() or 1):
        busy = {name: interleave(calls, rounds, seconds) for name, calls in chosen.items()}
    return [
        {
            "case": name,
            "std": STD,
            "slowed": busy[name]["implicit"].median / quiet[name]["implicit"].median,
            "standard_slowed": busy[name]["standard"].median / quiet[name]["standard"].median,
            "quiet_ms": quiet[name]["implicit"].milliseconds,
            "busy_ms": busy[name]["implicit"].milliseconds,
        }
        for name in chosen
    ]


@contextmanager
def spinning(number: int) -> Iterator[None]:
    """So many processes that do nothing but use a core."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(number)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
