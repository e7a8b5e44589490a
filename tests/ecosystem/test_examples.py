"""The examples that need timm or transformers, where these are installed."""

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_timm_model_is_converted_and_recalibrated(timm: Any, capsys: Any) -> None:
    runpy.run_path(str(EXAMPLES / "timm_model.py"))["main"]()
    told = capsys.readouterr().out
    found = {
        line.split(":")[0]: float(line.split()[-1])
        for line in told.splitlines()
        if "spread after" in line
    }
    assert abs(found["recalibrated"] - 1) < abs(found["converted"] - 1)
    assert "the same to the last bit: True" in told


def test_a_hugging_face_model_is_fine_tuned(capsys: Any) -> None:
    pytest.importorskip("transformers", reason="not installed")
    runpy.run_path(str(EXAMPLES / "hugging_face.py"))["main"](3)
    told = capsys.readouterr().out
    assert "converted 2:" in told
    assert "the same to the last bit: True" in told
