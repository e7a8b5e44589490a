"""The compiled library: built at first use with the system compiler, kept in a cache, loaded once.

Environment: IBNN_NATIVE=0 switches it off, IBNN_CACHE names the directory of the compiled library,
CXX the compiler, IBNN_CXXFLAGS flags to add (`make asan` adds those of the sanitizers).
"""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

logger = logging.getLogger(__name__)

# No -ffast-math: in a shared library it would make the whole process flush denormals,
# and NaN checks must stay.
_FLAGS = [
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fvisibility=default",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-freciprocal-math",
]


class BuildError(RuntimeError):
    """The library cannot be had on this machine; the message says why."""


def available() -> bool:
    """Whether the compiled engine can be used (built at the first call); one log line if not."""
    return library() is not None


def reason_missing() -> str | None:
    """Why the compiled engine cannot be used here, in a few words; None if it can."""
    return None if library() is not None else "it could not be built or was switched off"


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    if os.environ.get("IBNN_NATIVE", "1") == "0":
        logger.info("compiled engine switched off by IBNN_NATIVE=0; using the portable one")
        return None
    try:
        return ctypes.CDLL(str(build()))
    except (BuildError, OSError) as error:
        logger.warning("compiled engine not available, using the portable one: %s", error)
        return None


def build(extra_flags: tuple[str, ...] = ()) -> Path:
    """Path of the compiled library, built unless cached (`extra_flags`: -DIBNN_CHECKED)."""
    compiler = _compiler()
    flags = [*_FLAGS, *extra_flags, *os.environ.get("IBNN_CXXFLAGS", "").split()]
    threads = _openmp_flags()
    target = _cache_dir() / f"engine-{_fingerprint(compiler, [*flags, *threads])}.so"
    if not target.exists():
        _compile(compiler, flags, threads, target)
    return target


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise BuildError("no C++ compiler found (CXX, c++, g++, clang++)")


def _openmp_flags() -> list[str]:
    """Link to the very libgomp that torch has loaded: a second pool would fight with torch's."""
    for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*")):
        return ["-fopenmp", str(path), f"-Wl,-rpath,{path.parent}"]
    return []


def _fingerprint(compiler: str, flags: list[str]) -> str:
    here = Path(__file__).parent / "csrc"
    parts = [path.read_bytes() for path in sorted([*here.glob("*.cpp"), *here.glob("*.h")])]
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    parts += [" ".join(flags).encode(), compiler.encode(), version, _cpu_flags().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def _cpu_flags() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.machine() + platform.processor()


def _cache_dir() -> Path:
    if "IBNN_CACHE" in os.environ:
        return Path(os.environ["IBNN_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ibnn"


def _compile(compiler: str, flags: list[str], threads: list[str], target: Path) -> None:
    """Compile beside the target and rename: other processes never see half a file."""
    source = Path(__file__).parent / "csrc" / "engine.cpp"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            output = Path(work) / "engine.so"
            command = [compiler, *flags, str(source), "-o", str(output), *threads]
            result = subprocess.run(
                command, capture_output=True, text=True, timeout=300, check=False
            )
            if result.returncode:
                raise BuildError(f"{compiler} failed: {result.stderr.strip()[:300]}")
            os.replace(output, target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(str(error)) from error
