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
    """Compiles the sources, all at once, into `output`; what is needed on the way lies beside it.

    Compiled for OpenMP but linked to none: the threads are those of the libgomp that torch has
    loaded, since a second pool would fight with torch's.
    """
    compiler = find_compiler()
    threads = ["-fopenmp"] if openmp else []
    compiled = {p: str(output.with_name(f"{output.stem}-{p.stem}.o")) for p in sources()}
    # linked without -fopenmp, or the library would ask for a libgomp of its own
    shared = [flag for flag in flags if flag.startswith("-fsanitize")]
    _run_at_once(
        [
            [compiler, *flags, *threads, f"-I{SOURCES}", "-c", str(p), "-o", o]
            for p, o in compiled.items()
        ],
        output.parent,
    )
    _run_at_once(
        [[compiler, "-shared", *shared, *compiled.values(), "-o", str(output)]], output.parent
    )


def sources() -> list[Path]:
    return sorted(SOURCES.glob("*.cpp"))


def _run_at_once(commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Runs commands that do not outlive this process."""
    script = str(Path(__file__).with_name("supervise.py"))
    supervised = [sys.executable, "-I", script, str(folder), str(SECONDS)]
    processes = []
    try:
        for command in commands:
            processes.append(
                subprocess.Popen([*supervised, *command], stderr=subprocess.PIPE, text=True)
            )
        said = [process.communicate()[1] for process in processes]
    except BaseException:
        for process in processes:
            process.terminate()  # and with it all that it started
        for process in processes:
            process.wait()
        raise
    for process, text in zip(processes, said, strict=True):
        if process.returncode:
            raise BuildError(f"{commands[0][0]} failed: {text.strip()[:300]}")


def find_compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise BuildError("no C++ compiler found (CXX, c++, g++, clang++)")
