"""The library of this machine: compiled once, by one process at a time, nothing left behind."""

import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from ibnn.engine.native import cache
from ibnn.engine.native.compiler import (
    FLAGS,
    SECONDS,
    SOURCES,
    BuildError,
    compile_library,
    find_compiler,
)
from ibnn.engine.native.levels import cpu_flags

logger = logging.getLogger("ibnn")


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


def openmp_runtime() -> Path | None:
    """The libgomp that torch has loaded; None where it has another or none."""
    libraries = (Path(torch.__file__).parent / "lib").glob("libgomp*.so*")
    return next(iter(sorted(libraries)), None)


def _build(target: Path, flags: Sequence[str]) -> None:
    find_compiler()  # or say at once that there is none
    for left in target.parent.glob("building-*"):  # of a machine that went down
        if time.time() - left.stat().st_mtime > 2 * SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    logger.warning(
        "ibnn: compiling its CPU engine, once for this machine, about a minute (into %s)",
        target.parent,
    )
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="building-", dir=target.parent) as work:
        output = Path(work) / "engine.so"
        compile_library(output, flags, openmp_runtime() is not None)
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


def _fingerprint(flags: Sequence[str]) -> str:
    """Of all that decides what the library computes and where it runs; not of the compiler, so that
    a library built in one image serves in another that has none."""
    parts = [p.read_bytes() for p in sorted([*SOURCES.rglob("*.cpp"), *SOURCES.rglob("*.h")])]
    threads = "openmp" if openmp_runtime() is not None else "one thread"
    parts += [" ".join(flags).encode(), threads.encode(), cpu_flags().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]
