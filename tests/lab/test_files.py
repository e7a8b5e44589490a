"""A file is either the old one or the new one, whatever happens while it is written."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys

import pytest

from ibnn.lab import files


def test_what_is_written_is_what_is_read(tmp_path):
    files.write_bytes(tmp_path / "a", b"\x00\xff")
    files.write_text(tmp_path / "b", "λ\n")
    files.write_json(tmp_path / "c", {"lam": -0.2, "name": "λ"})
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_bytes() == "λ\n".encode()
    assert json.loads((tmp_path / "c").read_bytes()) == {"lam": -0.2, "name": "λ"}
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "result.json"
    target.write_text("old")

    def half_way():
        with files.atomic(target) as file:
            file.write(b"new")
            file.flush()
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        half_way()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    target = tmp_path / "result.json"
    target.write_text("old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        files.write_text(target, "new")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_write_that_fails_inside_the_operating_system_removes_the_temporary_file(
    tmp_path, monkeypatch
):
    real_open = os.open

    def open_full(path, flags, *mode):
        descriptor = real_open(path, flags, *mode)
        if flags & os.O_CREAT:
            full = real_open("/dev/full", os.O_RDWR)
            os.dup2(full, descriptor)
            os.close(full)
        return descriptor

    monkeypatch.setattr(os, "open", open_full)
    with pytest.raises(OSError, match="No space left"):
        files.write_bytes(tmp_path / "weights", b"x" * 100_000)
    assert os.listdir(tmp_path) == []


def test_a_value_that_is_not_json_is_refused_before_anything_is_written(tmp_path):
    for value in (float("nan"), float("inf"), object()):
        with pytest.raises((ValueError, TypeError)):
            files.write_json(tmp_path / "metrics.json", {"loss": value})
    assert os.listdir(tmp_path) == []


def test_the_mode_is_that_of_any_other_new_file(tmp_path):
    (tmp_path / "plain").touch()
    files.write_text(tmp_path / "atomic", "")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "atomic")]
    assert modes[0] == modes[1]


def test_a_symbolic_link_stays_and_its_target_changes(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_killed_writer_leaves_the_old_file_and_sweep_removes_the_rest(tmp_path):
    target = tmp_path / "result.json"
    target.write_text("old")
    program = (
        "import os, signal, sys\n"
        "from ibnn.lab import files\n"
        "with files.atomic(sys.argv[1]) as file:\n"
        "    file.write(b'new'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(target)])
    assert done.returncode == -signal.SIGKILL
    assert target.read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2
    files.sweep(tmp_path)
    assert os.listdir(tmp_path) == ["result.json"]
