"""The compiled library, loaded once: the one in the wheel, or one compiled at first use.

Environment: IBNN_NATIVE=0 switches it off, IBNN_CACHE names the folder of compiled libraries, CXX
the compiler, IBNN_CXXFLAGS flags to add (`make asan` adds those of the sanitizers); with either of
the last two the one in the wheel is left alone. IBNN_CPU_LEVEL (x86-64, x86-64-v3, x86-64-v4) is
the highest level of the wheel's libraries that is taken, to try or to time a lower one.
"""

import ctypes
import functools
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from ibnn.engine.native.build import BuildError, build, openmp_runtime
from ibnn.engine.native.levels import LEVELS, served_here

__all__ = ["BuildError", "available", "build", "library", "reason_missing"]

logger = logging.getLogger("ibnn")

PREBUILT = Path(__file__).parent / "prebuilt"


def available() -> bool:
    """Whether the compiled engine can be used (built at the first call); one log line if not."""
    return library() is not None


def reason_missing() -> str | None:
    """Why the compiled engine cannot be used here, in a few words; None if it can."""
    return _found()[1]


def library() -> ctypes.CDLL | None:
    """The library; None where it cannot be had."""
    return _found()[0]


@functools.lru_cache(maxsize=1)
def _found() -> tuple[ctypes.CDLL | None, str | None]:
    """The library, or the reason why there is none."""
    if os.environ.get("IBNN_NATIVE", "1") == "0":
        reason = "it is switched off by IBNN_NATIVE=0"
        logger.info("ibnn: no compiled CPU engine: %s", reason)
        return None, reason
    for path in _prebuilt():
        try:
            return _load(path), None
        except OSError as error:
            logger.info("ibnn: %s does not load here: %s", path.name, error)
    try:
        return _load(build()), None
    except (BuildError, OSError) as error:
        logger.warning(
            "ibnn: no compiled CPU engine (%s); the portable one serves, several times slower",
            error,
        )
        return None, f"it could not be built: {error}"


def _prebuilt() -> Iterator[Path]:
    """Libraries that came with the wheel and fit this processor, best first."""
    if os.environ.get("CXX") or os.environ.get("IBNN_CXXFLAGS"):
        return
    highest = os.environ.get("IBNN_CPU_LEVEL") or next(iter(LEVELS))
    if highest not in LEVELS:
        raise ValueError(f"IBNN_CPU_LEVEL is {highest!r}, expected one of {', '.join(LEVELS)}")
    allowed = list(LEVELS)[list(LEVELS).index(highest) :]
    for level in served_here():
        path = PREBUILT / f"engine-{level}.so"
        if level in allowed and path.exists():
            yield path


def _load(path: Path) -> ctypes.CDLL:
    runtime = openmp_runtime()
    if runtime is not None:
        ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(path))
