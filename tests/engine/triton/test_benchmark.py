"""`python -m benchmarks.gpu` by the interpreter: it runs, so that it works for who has a GPU."""

import pytest
import torch

from benchmarks import gpu
from ibnn.lab.bench.gpu import ENGINES
from ibnn.lab.training import device as devices


def test_the_table_names_the_device_and_has_a_line_for_each_engine(capsys):
    gpu.main(["--device", "cpu", "--tiny", "--rounds", "1"])
    first, _, _, *lines = capsys.readouterr().out.splitlines()
    assert "(cpu), torch" in first
    assert len(lines) == 2 * len(ENGINES)
    for line in lines:
        layer, lam, _, engine, standard, ours, ratio, error, solved = (
            cell.strip() for cell in line.strip("|").split("|")
        )
        assert layer.startswith(("conv", "linear"))
        assert (lam, engine in ENGINES) == ("-0.2", True)
        assert float(ratio) == pytest.approx(float(ours) / float(standard), rel=0.1)
        assert float(error) < 1e-5
        assert float(solved) == 1


def test_what_no_engine_can_do_is_said_in_the_table(monkeypatch):
    from ibnn.lab.bench import gpu as table

    monkeypatch.delenv("TRITON_INTERPRET")
    found = [*table.lines(torch.device("cpu"), table.TINY, 1)]
    assert sum("it is for GPUs" in line for line in found) == 2


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(devices, "_present", lambda: ["cpu"])
    with pytest.raises(SystemExit, match="but here is only cpu"):
        gpu.main([])
