"""The kernels compile for GPUs that are not here, and fit into their registers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# registers that a thread can have at all
REGISTERS = {"sm_80": 255, "sm_90": 255, "gfx942": 512}
# bytes of a thread: a few registers that are needed before a loop and after it
SPILLED = 64
# of one multiprocessor: all threads of a program take theirs from it
FILE = 65536


def compiled(targets: str, kernels: str = "") -> list[dict]:
    """What `compile_ahead` prints, from a process without the interpreter."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    paths = [str(ROOT / "src"), str(ROOT), environment.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, "-m", "tests.engine.triton.compile_ahead", targets, kernels],
        env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if "backend not found" in run.stderr or "No such file" in run.stderr:
        pytest.skip(f"this triton has no compiler for {targets}")
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def check(found: list[dict]) -> None:
    for program in found:
        assert program["registers"] <= REGISTERS[program["target"]], program
        if program["target"] != "gfx942":
            # of the rows met most a multiprocessor has two programs at work, or nobody is at work
            # while one waits
            room = 2 if program["kernel"].endswith(("nodes-32", "nodes-64", "short_rows-64")) else 1
            assert room * 32 * program["warps"] * program["registers"] <= FILE, program
        assert program["spilled"] <= SPILLED, program


def test_a_kernel_compiles_for_an_a100():
    (found,) = compiled("sm_80", "adjoint_on_nodes-32")
    check([found])


@pytest.mark.slow
@pytest.mark.parametrize("target", list(REGISTERS))
def test_all_kernels_compile(target):
    found = compiled(target)
    assert len(found) == 17
    check(found)
