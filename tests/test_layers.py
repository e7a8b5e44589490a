"""The layers hold, and the check behind `make lint` sees imports that break them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import layers


def test_imports_go_one_way():
    assert layers.wrong_imports() == []


@pytest.mark.parametrize(
    ("below", "known"), [("", (*layers.NEURON, "lab", "py")), ("lab", layers.LABORATORY)]
)
def test_every_package_has_its_place(below, known):
    found = {path.stem for path in (layers.SOURCE / below).iterdir() if path.stem[:2] != "__"}
    assert found <= {*known}


@pytest.mark.parametrize(
    ("place", "line", "expected"),
    [
        ("functional.py", "from ibnn.lab import data", "the neuron never imports the laboratory"),
        ("nn/linear.py", "import ibnn.lab.stats", "the neuron never imports the laboratory"),
        ("lab/stats/paired.py", "from ibnn.lab.report import page", "report stands above stats"),
        ("lab/results.py", "from .cli import app", "cli stands above results"),
        ("lab/data/load.py", "from ..training import train", "training stands above data"),
        (
            "lab/models/ucn.py",
            "def late():\n    from ibnn.lab.attacks import pgd",
            "attacks stands above models",
        ),
        (
            "lab/training/loop.py",
            "if TYPE_CHECKING:\n    from ibnn.lab.runner.run import Event",
            "runner stands above training",
        ),
        ("coupling/ring.py", "from ibnn import solver", "solver stands above coupling"),
        ("solver/newton.py", "from ibnn._core.options import x", "_core stands above solver"),
        ("_core/rows.py", "from ..nn.layer import ImplicitLayer", "nn stands above _core"),
        ("sigma.py", "from ibnn import Uniform", "Uniform has no place"),
        ("lab/attacks/pgd.py", "from ibnn._core import ops", "the laboratory uses public names"),
        ("lab/utils/text.py", "from ibnn.lab import data", "utils has no place"),
        ("engine/csrc/sums/cells.h", '#include "nodes/grid.h"', "nodes stands above sums"),
        ("engine/csrc/nodes/grid.h", '#include "cells.h"', "has no place"),
    ],
)
def test_lint_fails_when_a_wrong_import_is_added(tmp_path: Path, place, line, expected):
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'"""An otherwise good file."""\n\nimport torch\n{line}\n')
    checked = subprocess.run(
        [sys.executable, layers.__file__, tmp_path], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 1
    assert expected in checked.stdout
    assert place in checked.stdout


def test_lint_runs_the_check():
    makefile = Path(layers.__file__).parents[1] / "Makefile"
    recipe = makefile.read_text().split("\nlint:")[1].split("\n\n")[0]
    assert "tests/layers.py" in recipe


def test_imports_downwards_are_left_alone(tmp_path: Path):
    (tmp_path / "lab" / "report").mkdir(parents=True)
    good = "import torch\nimport ibnn\nfrom ibnn.lab import data, files\nfrom . import page\n"
    (tmp_path / "lab" / "report" / "write.py").write_text(good)
    (tmp_path / "functional.py").write_text("from ibnn.solver import newton\nfrom . import sigma\n")
    assert layers.wrong_imports(tmp_path) == []


def test_the_walks_of_contributing_name_each_file_once():
    text = (Path(layers.__file__).parents[1] / "CONTRIBUTING.md").read_text()
    # a walk is a numbered list
    walks = [w for w in re.findall(r"(?:^\d+\. .*\n)+", text, re.M) if " → " in w]
    assert len(walks) == 2
    for walk in walks:
        files = re.findall(r"`([\w/]+\.(?:py|cpp))`", walk)
        assert len(files) == len(set(files)) > 10
        assert all((layers.SOURCE / file).is_file() for file in files)
