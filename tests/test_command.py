"""The `ibnn` command where the laboratory is not installed."""

import os
import subprocess
import sys


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
