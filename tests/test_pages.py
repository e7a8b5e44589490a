"""What the documents show runs as written, in order, from an empty folder; the tutorials run."""

import inspect
import json
import operator
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shown_output import difference

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
# A fence of code with the comment before it, which readers do not see: `<!-- not run: it needs a
# cluster -->` or `<!-- run until Ctrl-C -->`, and the output shown right after it.
FENCE = re.compile(
    r"(?:<!-- ([^>]*?) -->\n)?```(sh|python)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S
)
PAGES = [
    path
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
    if FENCE.search(path.read_text(encoding="utf-8"))
]


def fences(page: Path) -> list[tuple[str, str, str, str]]:
    """(what the comment says, language, code, shown output) of every fence of code."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


@pytest.fixture
def shell(tmp_path):
    """An empty folder, and an environment in which `ibnn` and `python` are those of the tests."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, start in (("ibnn", "from ibnn_command import main; main()"), ("python", "")):
        file = programs / name
        more = f"-c {shlex.quote(start)}" if start else ""
        file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {more} "$@"\n')
        file.chmod(0o755)
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "BROWSER": "true",
        "IBNN_DATA": str(tmp_path / "no-data"),
        "PYTHONUNBUFFERED": "1",  # what is printed and what is reported come in their order
    }
    return {"cwd": folder, "env": environment, "text": True}


def test_the_pages_show_commands_and_mark_those_that_are_not_run():
    names = {page.name for page in PAGES}
    assert {"README.md", "index.md", "laboratory.md", "tracking.md", "theory.md"} <= names
    shown = [mark for page in PAGES for mark, *_ in fences(page)]
    assert sum(mark == "" for mark in shown) >= 12
    for mark in filter(None, shown):
        assert mark == "run until Ctrl-C" or mark.startswith("not run: ")


def test_every_output_on_a_page_stands_after_code_that_is_run():
    for page in PAGES:
        compared = [output for mark, *_, output in fences(page) if output and not mark]
        assert len(compared) == page.read_text(encoding="utf-8").count("```text\n"), page.name


def test_a_list_begins_after_an_empty_line():
    """Else the site shows it as one paragraph, though other viewers of markdown do not."""
    item = re.compile(r" *(?:[-*]|\d+\.) ")
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        before = ""
        for line in text.splitlines():
            inside = before.startswith("  ") or item.match(before)
            assert not item.match(line) or not before or inside, f"{page.name}: {line}"
            before = line.rstrip()


PRINTED = """\
digits UCN(1,3) standard seed 0 in results/runs/6ca99e943534
warm-up epoch 1/2, val 10.0 %, 509 images/s
warm-up epoch 2/2, val 82.2 %, 1,243 images/s
epoch 1/3, val 87.7 %, 7,382 images/s
best 89.4 % in epoch 3, last 89.4 %, 1,942 parameters

pgd-linf                     80.0 %   67.0 to 88.8      0.05       11      0.2
"""


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED,
        PRINTED.replace("509 images/s", "12,345 images/s").replace("82.2", "8.0"),
        PRINTED.replace("warm-up epoch 2/2, val 82.2 %, 1,243 images/s", "..."),
        PRINTED.replace("      0.2", "     10.4").replace("67.0 to 88.8", "7.0 to 8.0"),
        PRINTED.replace(" seed 0 in results", " ... in results"),
        "...\nbest 9.4 % in epoch 2, last 8.4 %, 1,942 parameters\n...\n",
        "...\n",
    ],
)
def test_output_agrees_where_only_measurements_differ(shown):
    assert difference(shown, PRINTED) is None


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED.replace("6ca99e943534", "7ca99e943534"),
        PRINTED.replace("1,942 parameters", "1,943 parameters"),
        PRINTED.replace("seed 0", "seed 1"),
        PRINTED.replace("       11 ", "       12 "),
        PRINTED.replace("      0.05 ", "      0.06 "),
        PRINTED.replace("warm-up epoch 2/2, val 82.2 %, 1,243 images/s\n", ""),  # without "..."
        PRINTED.replace("epoch 1/3", "...\nepoch 2/3"),
        PRINTED + "one line more\n",
        PRINTED + "...\none line more\n",
        "one line more\n" + PRINTED,
        PRINTED.partition("\n")[2],  # its first line is missing
        "...\nbest 9.4 % in epoch 2, last 8.4 %, 1,942 parameters\n",  # its last is
    ],
)
def test_output_that_was_not_printed_is_found(shown):
    assert difference(shown, PRINTED) is not None


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_pages_code_runs_as_written_and_prints_what_is_shown(page, shell):
    for mark, language, code, shown in fences(page):
        if mark.startswith("not run"):
            continue
        if mark == "run until Ctrl-C":
            interrupt(code, shell)
            continue
        command = ["bash", "-euc", code] if language == "sh" else [sys.executable, "-c", code]
        answer = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **shell
        )
        said = f"{page.name}: {code}\n{answer.stdout[-3000:]}"
        assert answer.returncode == 0, said
        assert "Warning" not in answer.stdout, said
        different = difference(shown, answer.stdout) if shown else None
        assert different is None, f"{said}\n{different}"


def interrupt(code: str, shell: dict) -> None:
    """The command says something, goes on, and ends at once and in peace when it is told to."""
    process = subprocess.Popen(
        ["bash", "-euc", f"exec {code}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **shell
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip(), code
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, ""), code


@pytest.mark.slow
@pytest.mark.parametrize("script", TUTORIALS, ids=lambda script: script.stem)
def test_a_tutorial_runs(script, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from tutorial import execute

    done = execute(script)
    assert done.images()
    assert any(cell.printed for cell in done.cells)
    assert done.markdown().startswith("# ")


def test_a_tutorial_that_fails_says_where(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from tutorial import TutorialError, execute

    script = tmp_path / "broken.py"
    script.write_text("# %% [markdown]\n# # Title\n\n# %%\nx = 1\n\n# %%\nprint(y)\n")
    with pytest.raises(TutorialError, match=r"broken.py, cell at line 8: NameError"):
        execute(script)
    script.write_text("# %%\nimport warnings\n\nwarnings.warn('old')\n")
    with pytest.raises(TutorialError, match="UserWarning: old"):
        execute(script)


def test_a_tutorials_page_has_text_code_output_and_figures(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from tutorial import execute

    script = tmp_path / "small.py"
    draw = "import matplotlib.pyplot as plt\n\nplt.plot([1, 2])\nprint('drawn')\n"
    script.write_text(f"# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\n{draw}")
    done = execute(script)
    assert done.markdown() == (
        "# Title\n\nText.\n\n"
        f"```python\n{draw.strip()}\n```\n\n```text\ndrawn\n```\n\n"
        "![what the cell above draws](small-1.png)\n"
    )
    assert done.images()["small-1.png"].startswith(b"\x89PNG")
    outputs = json.loads(done.notebook())["cells"][1]["outputs"]
    assert [output["output_type"] for output in outputs] == ["stream", "display_data"]


def test_the_reference_has_every_public_name():
    import ibnn

    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"::: ibnn\.(\w+)", text))
    assert set(ibnn.__all__) <= listed


def test_the_reference_has_every_argument():
    import ibnn

    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = []
    for name in re.findall(r"::: ibnn\.([\w.]+)", text):
        part = operator.attrgetter(name)(ibnn)
        named = {name: part}
        if inspect.ismodule(part):  # with its members, listed below it
            (members,) = re.findall(rf"::: ibnn\.{name}\n.*?members: \[(.*?)\]", text, re.S)
            named = {f"{name}.{member}": getattr(part, member) for member in members.split(", ")}
        for place, thing in named.items():
            methods = vars(thing).items() if inspect.isclass(thing) else ()
            for member, value in [("", thing), *methods]:
                if not member.startswith("_") and callable(value):
                    missing += [f"{place}.{member}: {a}" for a in undocumented(value)]
    assert missing == []


def test_the_reference_has_an_example_of_every_public_name():
    """Which docstring examples run: pytest collects them as doctests."""
    import ibnn

    missing = []
    for name in ibnn.__all__:
        thing = getattr(ibnn, name)
        parts = vars(thing).values() if inspect.ismodule(thing) else [thing]
        if not any(">>>" in (getattr(part, "__doc__", None) or "") for part in parts):
            missing.append(name)
    assert missing == []


def undocumented(thing) -> list[str]:
    """The arguments its docstring, or that of its constructor, does not name."""
    about = inspect.cleandoc(thing.__doc__ or "")
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return []  # its arguments are those of every exception
    if inspect.isclass(thing):
        about += "\n" + (inspect.getdoc(thing.__init__) or "")
    elif not about:
        return []  # not on the page
    named = set(re.findall(r"^ +(\w+): ", about, re.M))
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    arguments = inspect.signature(thing).parameters.values()
    return [
        a.name for a in arguments if a.kind not in open_ended and a.name not in {*named, "self"}
    ]


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
    fetched = re.compile(r'<(?:script|img|iframe)[^>]*\bsrc="https?://[^"]*"')  # to read it offline
    pages = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    layers = 8  # each with a table of all its arguments, those that share a constructor too
    assert pages["api.html"].count("whether slope is a parameter.") >= layers
    assert not any(fetched.search(text) for text in pages.values())
