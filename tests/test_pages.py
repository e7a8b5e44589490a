"""The commands that the documents show run as written, in order, from an empty folder."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def commands(page: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("ibnn ")]


def test_the_page_of_the_laboratory_shows_commands():
    assert len(commands("docs/laboratory.md")) >= 8


@pytest.mark.slow
def test_the_laboratorys_commands_run_as_written(tmp_path):
    for line in commands("docs/laboratory.md"):
        answer = subprocess.run(
            [sys.executable, "-m", *line.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, f"{line}\n{answer.stdout[-800:]}\n{answer.stderr[-800:]}"
    assert (tmp_path / "analysis" / "index.html").exists() or list(tmp_path.glob("analysis/*.html"))


def test_the_reference_has_every_public_name():
    import ibnn

    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"::: ibnn\.(\w+)", text))
    assert set(ibnn.__all__) <= listed


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    if shutil.which("mkdocs", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("mkdocs is not installed (the extra `docs`)")
    answer = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
