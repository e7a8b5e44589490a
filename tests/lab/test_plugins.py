"""A module of somebody else's makes its parts known to every command and to its workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ibnn
from ibnn.lab.plugins import PluginError, load_plugins

PLUGIN = """
from dataclasses import dataclass
import torch
from ibnn.lab import data
from ibnn.lab.training import Listener, register_listener

@dataclass(frozen=True)
class Stripes(data.Source):
    def find(self, root):
        return []

    def advice(self, root):
        return "nothing is needed"

    def read(self, files):
        y = torch.arange(60) % 2
        x = torch.zeros(60, 1, 8, 8, dtype=torch.uint8)
        x[y == 0, :, ::2], x[y == 1, :, :, ::2] = 200, 200
        return data.Dataset(self.name, x[:40], y[:40], x[40:], y[40:], 2, (1, 8, 8))

class Marks(Listener):
    def on_start(self, config, folder, epochs_done):
        self.file = folder / "marks"

    def on_epoch(self, metrics):
        self.file.write_text(f"{metrics.epoch}")

data.register_dataset(Stripes("stripes", "lying and standing stripes"))
register_listener("marks", Marks)
"""


@pytest.fixture
def place(tmp_path) -> Path:
    (tmp_path / "my_parts.py").write_text(PLUGIN)
    return tmp_path


def call(place: Path, line: str, plugins: str) -> "subprocess.CompletedProcess[str]":
    source = str(Path(ibnn.__file__).parents[1])
    path = os.pathsep.join([source, str(place)])
    return subprocess.run(
        [sys.executable, "-m", "ibnn", *line.split()],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "IBNN_PLUGINS": plugins},
    )


def test_a_dataset_and_a_listener_of_a_plugin_serve_workers_too(place):
    line = "run learning-speed --preset smoke --dataset stripes --log marks --seeds 1 --epochs 1"
    done = call(place, line, "my_parts")
    assert done.returncode == 0, done.stderr
    assert "learning-speed on stripes" in done.stdout
    assert [file.read_text() for file in place.rglob("marks")] == ["1", "1"]


def test_without_the_plugin_the_dataset_is_unknown(place):
    done = call(place, "train --dataset stripes", "")
    assert done.returncode == 2
    assert "unknown dataset 'stripes'" in done.stderr


def test_a_plugin_that_cannot_be_imported_is_one_line(monkeypatch):
    monkeypatch.setenv("IBNN_PLUGINS", "no_such_module")
    with pytest.raises(PluginError, match="plugin no_such_module: ModuleNotFoundError") as caught:
        load_plugins()
    assert "\n" not in str(caught.value)
