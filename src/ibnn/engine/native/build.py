"""Compiling the library: once for a machine, in one process at a time, nothing left behind.

The library is compiled for OpenMP but linked to none: its threads are those of the libgomp that
torch has loaded (`openmp_runtime`), since a second pool would fight with torch's.
"""

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from ibnn.engine.native import cache

logger = logging.getLogger("ibnn")

SOURCES = Path(__file__).parent / "csrc"
SECONDS = 600  # for the compiler, on a busy machine

# No -ffast-math: in a shared library it would make the whole process flush denormals,
# and NaN checks must stay.
FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=default",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-freciprocal-math",
)


class BuildError(RuntimeError):
    """The library cannot be had on this machine; the message says why."""


def build(extra_flags: tuple[str, ...] = ()) -> Path:
    """Path of the library for this machine, built unless cached (`extra_flags`: -DIBNN_CHECKED)."""
    own = os.environ.get("IBNN_CXXFLAGS", "").split()
    flags = [*FLAGS, "-march=native", *extra_flags, *own]
    try:
        target = cache.folder() / f"engine-{_fingerprint(flags)}.so"
        if cache.is_whole(target):
            return target
        with _alone(target):
            if not cache.is_whole(target):  # another process was faster
                _build(target, flags)
    except (cache.CacheError, OSError) as error:
        raise BuildError(str(error)) from error
    return target


def compile_library(output: Path, flags: Sequence[str]) -> None:
    """Compiles the sources into `output`; what is needed on the way lies beside it."""
    compiler = _compiler()
    openmp = ["-fopenmp"] if openmp_runtime() is not None else []
    compiled = str(output.with_suffix(".o"))
    # linked without -fopenmp: the library would ask for a libgomp of its own
    shared = [flag for flag in flags if flag.startswith("-fsanitize")]
    for command in (
        [compiler, *flags, *openmp, "-c", str(SOURCES / "engine.cpp"), "-o", compiled],
        [compiler, "-shared", *shared, compiled, "-o", str(output)],
    ):
        code, said = _run(command, output.parent)
        if code:
            raise BuildError(f"{compiler} failed: {said.strip()[:300]}")


def _run(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """The exit code and what was said, of a command that does not outlive this process."""
    script = str(Path(__file__).with_name("supervise.py"))
    supervised = [sys.executable, "-I", script, str(folder), str(SECONDS), *command]
    process = subprocess.Popen(supervised, stderr=subprocess.PIPE, text=True)
    try:
        _, said = process.communicate()
    except BaseException:
        process.terminate()  # and with it all that it started
        process.wait()
        raise
    return process.returncode, said


def openmp_runtime() -> Path | None:
    """The libgomp that torch has loaded; None where it has another or none."""
    libraries = (Path(torch.__file__).parent / "lib").glob("libgomp*.so*")
    return next(iter(sorted(libraries)), None)


def _build(target: Path, flags: Sequence[str]) -> None:
    _compiler()  # or say at once that there is none
    for left in target.parent.glob("building-*"):  # of a machine that went down
        if time.time() - left.stat().st_mtime > 2 * SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    logger.warning(
        "ibnn: compiling its CPU engine, once for this machine, 15 to 60 s (into %s)", target.parent
    )
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="building-", dir=target.parent) as work:
        output = Path(work) / "engine.so"
        compile_library(output, flags)
        cache.keep(output, target)
    logger.info("ibnn: CPU engine compiled in %.0f s", time.monotonic() - begin)


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """One process compiles, the others wait for it."""
    try:
        import fcntl
    except ImportError:  # no such locks: compiling twice is only slower
        yield
        return
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise BuildError("no C++ compiler found (CXX, c++, g++, clang++)")


def _fingerprint(flags: Sequence[str]) -> str:
    """Of all that decides what the library computes and where it runs; not of the compiler, so that
    a library built in one image serves in another that has none."""
    parts = [p.read_bytes() for p in sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")])]
    threads = "openmp" if openmp_runtime() is not None else "one thread"
    parts += [" ".join(flags).encode(), threads.encode(), cpu_flags().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def cpu_flags() -> str:
    """What this processor can do, as the system lists it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.machine() + platform.processor()
