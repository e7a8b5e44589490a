"""Levels of x86-64 that the library is compiled for ahead, and what this processor can do.

Needs nothing but Python, so that the build of a wheel can use it too.
"""

import platform
from collections.abc import Iterator
from pathlib import Path

# what a processor must have for each level, the highest first
LEVELS = {
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
    "x86-64": {"sse2"},
}


def served_here() -> Iterator[str]:
    """The levels that this processor has, the highest first."""
    has = set(cpu_flags().split())
    return (level for level, needed in LEVELS.items() if needed <= has)


def cpu_flags() -> str:
    """What this processor can do, as the system lists it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.machine() + platform.processor()
