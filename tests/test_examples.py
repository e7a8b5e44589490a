"""The examples run, in a small setting, and say what they are about."""

import math
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    runpy.run_path(str(EXAMPLES / name))["main"](*arguments)
    return capsys.readouterr().out


def test_your_resnet(capsys: pytest.CaptureFixture[str]) -> None:
    told = run("your_resnet.py", capsys, 3)
    assert "converted 5: '0', '1.first'" in told
    assert "the same to the last bit: True" in told


def test_your_coupling_and_sigma(capsys: pytest.CaptureFixture[str]) -> None:
    told = run("your_coupling_and_sigma.py", capsys)
    assert "lam below 0.050" in told
    assert "rebuilt from its plan: True" in told


def test_a_gpt_learns_a_text_that_repeats_itself(capsys: pytest.CaptureFixture[str]) -> None:
    text = "the cat sat on the mat. " * 40
    main = runpy.run_path(str(EXAMPLES / "gpt.py"))["main"]
    bits = main(text, 40)
    # characters drawn at their frequencies, without their order, cost their entropy
    frequencies = [text.count(character) / len(text) for character in set(text)]
    assert bits < -sum(f * math.log2(f) for f in frequencies)
    assert "blocks.0.hidden: lam" in capsys.readouterr().out


def test_a_text_too_short_for_the_gpt_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "short.txt"
    text.write_text("hello world")
    monkeypatch.setattr(sys, "argv", ["gpt.py", "--text", str(text)])
    with pytest.raises(SystemExit):
        runpy.run_path(str(EXAMPLES / "gpt.py"), run_name="__main__")
    assert "has 11 characters, expected at least 340" in capsys.readouterr().err


def test_attack_your_network(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    told = run("attack_your_network.py", capsys, 1, 8, 0.1, "pgd")
    assert told.count("all of them:") == 2
    assert told.count("checks that failed: none") == 2


@pytest.mark.parametrize(
    ("name", "package", "arguments"),
    [("timm_model.py", "timm", ()), ("hugging_face.py", "transformers", (1,))],
)
def test_what_is_not_installed_is_told_in_a_line(
    name: str,
    package: str,
    arguments: tuple[Any, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # importing it fails
    told = run(name, capsys, *arguments)
    assert told.startswith(f"this example needs {package} (")
    assert told.count("\n") == 1
