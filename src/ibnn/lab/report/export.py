"""Reports as Markdown with figures and CSV beside it: small enough to keep with a project."""

import html
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ibnn.lab import files
from ibnn.lab.report.overview import chapters

README = "README.md"
SMOKE = "**Preset smoke: the numbers mean nothing.**"


def export(root: str | os.PathLike[str], target: str | os.PathLike[str]) -> list[Path]:
    """Write one folder per report below `root`, and a page with every claim; the pages' paths."""
    found, _ = chapters(root)
    written = []
    for chapter in found:
        for entry in chapter.entries:
            source, goal = Path(root) / entry.folder, Path(target) / entry.folder
            goal.mkdir(parents=True, exist_ok=True)
            data = f"{entry.findings['experiment']}.csv"
            pictures = [f"{picture['name']}.png" for picture in entry.findings["pictures"]]
            for name in (data, *pictures):
                shutil.copyfile(source / name, goal / name)
            files.write_text(goal / README, _page(entry.findings, data))
            written.append(goal / README)
    lines = ["# Every claim, and what was measured", ""]
    for chapter in found:
        lines += [f"## {_plain(chapter.title)}", ""]
        for entry in chapter.entries:
            lines += [f"### [{_plain(entry.where)}]({quote(entry.folder)}/{README})", ""]
            lines += [SMOKE, ""] if entry.is_smoke else []
            lines += [_plain(entry.findings["headline"]), ""]
            lines += [*_claims(entry.findings["claims"]), ""]
    files.write_text(Path(target) / README, "\n".join(lines))
    return [Path(target) / README, *written]


def _page(findings: Mapping[str, Any], data: str) -> str:
    lines = [f"# {_plain(findings['title'])}: {_plain(findings['dataset'])}", ""]
    lines += [SMOKE, ""] if findings["preset"] == "smoke" else []
    lines += [_plain(findings["headline"]), ""]
    if findings["missing"]:
        lines += [f"**{findings['missing']} runs are missing; this page shows the rest.**", ""]
    for picture in findings["pictures"]:
        name = picture["name"]
        lines += [f"![{_plain(name)}]({quote(name)}.png)", "", _plain(picture["caption"]), ""]
    lines += ["## What the paper says, and what was measured here", ""]
    lines += [*_claims(findings["claims"]), ""]
    for table in findings["tables"]:
        lines += [f"## {_plain(table['title'])}", "", *_table(table["columns"], table["rows"]), ""]
    lines += ["## What was reduced", "", *_list(findings["reduced"] or ["Nothing."]), ""]
    if findings["notes"]:
        lines += ["## Measured besides", "", *_list(findings["notes"]), ""]
    lines += ["## Settings", "", *_list(f"{name}: {text}" for name, text in findings["settings"])]
    minutes = findings["seconds"] / 60
    every = f"Every number: [{_plain(data)}]({quote(data)})."
    lines += ["", f"{every} {minutes:.0f} minutes of training in all runs."]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text that stays text: neither HTML nor Markdown, on one line.

    >>> _plain("<b>5 * 3</b> of |x|")
    '&lt;b&gt;5 \\\\* 3&lt;/b&gt; of \\\\|x\\\\|'
    """
    return html.escape(re.sub(r"([\\`*_\[\]|])", r"\\\1", " ".join(text.split())), quote=False)


def _claims(claims: Sequence[Mapping[str, str]]) -> list[str]:
    lines = _table(
        ("The paper says", "Measured here", "Agrees"),
        [(claim["paper"], claim["measured"], claim["agrees"]) for claim in claims],
    )
    # the answer, last in its row, stands out
    return [*lines[:2], *(re.sub(r" ([^|]+) \|$", r" **\1** |", line) for line in lines[2:])]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(columns), "| " + " | ".join(["---"] * len(columns)) + " |", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _list(lines: Iterable[str]) -> list[str]:
    return [f"- {_plain(line)}" for line in lines]
