"""How the compiled library is had: compiled once, kept safe, and nothing left behind.

A compiler that only pretends (it copies a library built before) keeps these tests quick.
"""

import ctypes
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ibnn.engine.native import build, cache, levels, loader
from ibnn.engine.native.compiler import sources

pytestmark = [
    pytest.mark.skipif(not loader.available(), reason="no C++ compiler"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]

CALLS = len(sources()) + 1  # for a library: each source, and link
PRETENDING = """#!/bin/sh
echo called >> "{folder}/calls"
{first}
while [ "$1" != "-o" ]; do shift; done
cp "{library}" "$2"
"""


@pytest.fixture(scope="module")
def real() -> Path:
    return build.build()


@pytest.fixture
def pretend(tmp_path, monkeypatch, real):
    """Sets a compiler that counts its calls."""

    def make(first: str = "") -> Path:
        compiler = tmp_path / "c++"
        compiler.write_text(PRETENDING.format(folder=tmp_path, first=first, library=real))
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        monkeypatch.setenv("IBNN_CACHE", str(tmp_path / "cache"))
        return compiler

    return make


def calls(folder: Path) -> int:
    log = folder / "calls"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_one_line_tells_of_compiling_and_the_next_time_none(pretend, caplog, tmp_path):
    pretend()
    with caplog.at_level(logging.WARNING):
        first = build.build()
        assert [r.getMessage()[:36] for r in caplog.records] == [
            "ibnn: compiling its CPU engine, once"
        ]
        assert build.build() == first
    assert len(caplog.records) == 1
    assert calls(tmp_path) == CALLS


def test_a_cached_library_serves_where_there_is_no_compiler(pretend, monkeypatch):
    pretend()
    built = build.build()
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("PATH", "")
    assert build.build() == built


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"another library"])
def test_a_damaged_library_is_built_again(pretend, damage, tmp_path):
    pretend()
    built = build.build()
    whole = built.read_bytes()
    built.write_bytes(damage)
    assert build.build() == built
    assert built.read_bytes() == whole
    assert calls(tmp_path) == 2 * CALLS


def test_a_library_without_its_checksum_is_built_again(pretend, tmp_path):
    pretend()
    build.build().with_suffix(".sha256").unlink()
    build.build()
    assert calls(tmp_path) == 2 * CALLS


def test_what_another_user_owns_is_not_used(pretend, monkeypatch):
    pretend()
    built = build.build()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    owner = built.stat().st_uid
    if owner == 0:  # root's files are trusted: make it somebody's
        os.chown(built.parent, 54321, -1)
    with pytest.raises(build.BuildError, match="belongs to another user"):
        build.build()


def test_others_may_not_write_to_it(pretend):
    pretend()
    built = build.build()
    built.chmod(0o777)
    built.parent.chmod(0o777)
    build.build()
    assert built.stat().st_mode & 0o022 == 0
    assert built.parent.stat().st_mode & 0o022 == 0


def test_an_empty_name_of_the_folder_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("IBNN_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "ibnn"


def test_without_a_home_the_folder_is_a_temporary_one(monkeypatch, tmp_path):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("IBNN_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    assert cache.folder() == tmp_path / f"ibnn-{os.getuid()}"


def test_a_folder_that_cannot_be_made_is_a_reason(pretend, monkeypatch, tmp_path):
    pretend()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("IBNN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(build.BuildError, match="cannot be made"):
        build.build()


def test_a_compiler_that_fails_is_quoted(pretend):
    pretend(first="echo 'error: no such thing' >&2; exit 1")
    with pytest.raises(build.BuildError, match="error: no such thing"):
        build.build()
    assert not list(cache.folder().glob("building-*"))


CAUGHT = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # also in the background
BUILD = "from ibnn.engine.native import build; build.build()"


def started(folder: Path, process: subprocess.Popen) -> None:
    for _ in range(600):
        if calls(folder):
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    raise AssertionError("the compiler was not started")


def written(file: Path) -> int:
    """The number in a file that the compiler writes after it was called."""
    for _ in range(600):
        if file.is_file() and (text := file.read_text()).endswith("\n"):
            return int(text)
        time.sleep(0.1)
    raise AssertionError(f"{file.name} was not written")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_compilation_leaves_nothing_running_and_nothing_behind(pretend, how, tmp_path):
    pretend(first=f"echo $$ > '{tmp_path}/pid'; sleep 600")
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import signal; signal.signal(2, signal.default_int_handler); {BUILD}",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    started(tmp_path, process)
    pid = written(tmp_path / "pid")
    process.send_signal(how)
    process.communicate(timeout=60)
    end = time.monotonic() + 20
    while found := still_there(pid, tmp_path / "cache"):
        assert time.monotonic() < end, f"still there: {found}"
        time.sleep(0.1)


def still_there(pid: int, folder: Path) -> list[str]:
    compiler = ["the compiler"] if Path(f"/proc/{pid}").exists() else []
    return compiler + [path.name for path in folder.glob("building-*")]


def test_two_processes_at_once_compile_once(pretend, tmp_path):
    pretend(first="sleep 0.5")
    both = [subprocess.Popen([sys.executable, "-c", BUILD]) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert calls(tmp_path) == CALLS


def test_a_library_in_the_package_is_taken_before_one_is_built(monkeypatch, tmp_path, real):
    for name in ("CXX", "IBNN_CXXFLAGS"):
        monkeypatch.delenv(name, raising=False)
    built = []
    monkeypatch.setattr(loader, "build", lambda: built.append(real) or real)
    monkeypatch.setattr(levels, "cpu_flags", lambda: "sse2")
    good, damaged = (tmp_path / name / "engine-x86-64.so" for name in ("good", "damaged"))
    for path in (good, damaged):
        path.parent.mkdir()
    shutil.copy(real, good)
    damaged.write_bytes(b"not a library")
    monkeypatch.setattr(loader, "PREBUILT", good.parent)
    assert found_anew()._name == str(good)
    assert built == []
    monkeypatch.setattr(loader, "PREBUILT", damaged.parent)
    assert found_anew()._name == str(real)
    assert built == [real]


def found_anew() -> ctypes.CDLL:
    """The library as it is found by a new process."""
    loader._found.cache_clear()
    try:
        library = loader.library()
    finally:
        loader._found.cache_clear()
    assert library is not None
    return library


def test_a_lower_level_of_the_wheels_libraries_can_be_demanded(monkeypatch, tmp_path):
    for name in ("CXX", "IBNN_CXXFLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(loader, "PREBUILT", tmp_path)
    monkeypatch.setattr(levels, "cpu_flags", lambda: " ".join(set().union(*levels.LEVELS.values())))
    files = [tmp_path / f"engine-{level}.so" for level in levels.LEVELS]
    for file in files:
        file.touch()
    assert list(loader._prebuilt()) == files  # best first
    monkeypatch.setenv("IBNN_CPU_LEVEL", "x86-64-v3")
    assert list(loader._prebuilt()) == files[1:]
    monkeypatch.setenv("IBNN_CPU_LEVEL", "v3")
    with pytest.raises(ValueError, match="IBNN_CPU_LEVEL is 'v3', expected one of x86-64-v4"):
        list(loader._prebuilt())


def test_a_processor_is_served_the_levels_it_has_and_no_higher_one(monkeypatch):
    monkeypatch.setattr(levels, "cpu_flags", lambda: "sse2 avx2 bmi1 bmi2 f16c fma movbe avx512f")
    assert list(levels.served_here()) == ["x86-64-v3", "x86-64"]
    monkeypatch.setattr(levels, "cpu_flags", lambda: "neon asimd")
    assert list(levels.served_here()) == []
