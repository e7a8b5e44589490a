"""How the `ibnn` command starts: without the laboratory, and without torch where it can."""

import os
import subprocess
import sys

import pytest


def test_without_the_laboratory_one_line_says_how_to_get_it(tmp_path):
    missing = 'raise ModuleNotFoundError("No module named \'typer\'", name="typer")'
    (tmp_path / "typer.py").write_text(missing)
    result = subprocess.run(
        [sys.executable, "-m", "ibnn", "run", "boundary"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "typer is missing" in result.stderr
    assert "pip install 'ibnn[lab]'" in result.stderr


STARTED = """
import os, sys
import ibnn_command
sys.argv = ["ibnn", *sys.argv[1:]]
try:
    ibnn_command.main()
finally:
    print("torch" in sys.modules, os.environ["OMP_WAIT_POLICY"], file=sys.stderr)
"""


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", STARTED, *arguments],
        env={**os.environ, "OMP_WAIT_POLICY": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("arguments", [(), ("--help",), ("run", "-h"), ("runs", "list", "--help")])
def test_help_does_not_wait_for_torch(arguments):
    result = start(*arguments)
    assert result.returncode == 0
    assert "Usage: ibnn" in result.stdout
    assert result.stderr.startswith("False")


def test_help_of_an_unknown_command_is_one_line():
    result = start("rnu", "--help")
    assert result.returncode == 2
    assert result.stderr.startswith("ibnn: No such command 'rnu'")
    assert result.stderr.splitlines()[1].startswith("False")


def test_completion_does_not_wait_for_torch():
    line = {"_IBNN_COMPLETE": "complete_bash", "COMP_WORDS": "ibnn run cap", "COMP_CWORD": "2"}
    result = start(**line)
    assert result.stdout.split() == ["capacity"]
    assert result.stderr.startswith("False")


def test_idle_threads_sleep_unless_the_user_says_otherwise():
    environment = {name: v for name, v in os.environ.items() if name != "OMP_WAIT_POLICY"}
    unset = subprocess.run(
        [sys.executable, "-c", STARTED, "--help"], env=environment, capture_output=True, text=True
    )
    assert unset.stderr.split() == ["False", "PASSIVE"]
    assert start("--help", OMP_WAIT_POLICY="ACTIVE").stderr.split() == ["False", "ACTIVE"]
