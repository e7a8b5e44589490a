"""The C++ compiler: how the sources become a library.

Needs nothing but Python, so that the build of a wheel can use it too.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

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


def compile_library(output: Path, flags: Sequence[str], openmp: bool = True) -> None:
    """Compiles the sources into `output`; what is needed on the way lies beside it.

    Compiled for OpenMP but linked to none: the threads are those of the libgomp that torch has
    loaded, since a second pool would fight with torch's.
    """
    compiler = find_compiler()
    threads = ["-fopenmp"] if openmp else []
    compiled = str(output.with_suffix(".o"))
    # linked without -fopenmp, or the library would ask for a libgomp of its own
    shared = [flag for flag in flags if flag.startswith("-fsanitize")]
    for command in (
        [compiler, *flags, *threads, "-c", str(SOURCES / "engine.cpp"), "-o", compiled],
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


def find_compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise BuildError("no C++ compiler found (CXX, c++, g++, clang++)")
