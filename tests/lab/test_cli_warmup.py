"""`ibnn warmup` on a machine without a GPU: what is ready and what is not, one line each."""

import pytest

from ibnn.engine import triton
from ibnn.lab.cli import main


def call(line: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(line.split())
    assert isinstance(end.value.code, int)
    return end.value.code


def test_it_says_what_is_ready(capsys, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert call("warmup --device cpu") == 0
    native, kernels = capsys.readouterr().out.splitlines()
    assert native.startswith("native: ")
    assert kernels.startswith("triton: not available: it is for GPUs")


def test_on_a_gpu_kernels_are_compiled_length_by_length(capsys, monkeypatch):
    monkeypatch.setattr(triton, "reason_missing", lambda device: None)
    monkeypatch.setattr(triton, "warm", lambda device, units: dict.fromkeys(units, 2.5))
    assert call("warmup --device cpu --units 64,1024") == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "triton: rows of 64 units on cpu ready (2.5 s)",
        "triton: rows of 1024 units on cpu ready (2.5 s)",
    ]


def test_lengths_that_are_none_are_refused(capsys):
    assert call("warmup --units 64,none") != 0
    assert "expected numbers with commas" in capsys.readouterr().err
