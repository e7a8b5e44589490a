"""Reports as Markdown with figures and CSV beside it: small enough to keep with a project."""

import html
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from ibnn.lab import files
from ibnn.lab.experiments.registry import get, names
from ibnn.lab.files import StrPath
from ibnn.lab.report.overview import Entry, chapters

README = "README.md"
SMOKE = "**Preset smoke: the numbers mean nothing.**"


def export(root: StrPath, target: StrPath) -> list[Path]:
    """Write one folder per report below `root`, and a page with every claim; the pages' paths.

    Reports that were exported to `target` before stay there, and on its page.
    """
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
    page = Path(target) / README
    sections = _sections(page.read_text(encoding="utf-8")) if page.is_file() else {}
    for chapter in found:
        own = {entry.folder: _section(entry) for entry in chapter.entries}
        title = _plain(chapter.title)
        sections[title] = dict(sorted({**sections.get(title, {}), **own}.items()))
    files.write_text(page, _overview(sections))
    return [page, *written]


# by the title of the experiment and the folder of the report: what the page of all claims says
Sections = dict[str, dict[str, str]]


def _section(entry: Entry) -> str:
    lines = [f"### [{_plain(entry.where)}]({quote(entry.folder)}/{README})", ""]
    lines += [SMOKE, ""] if entry.is_smoke else []
    lines += [_plain(entry.findings["headline"]), "", *_claims(entry.findings["claims"])]
    return "\n".join(lines)


def _overview(sections: Sections) -> str:
    titles = [_plain(get(name).title) for name in names()]
    order = [title for title in titles if title in sections]
    order += [title for title in sections if title not in titles]
    parts = ["# Every claim, and what was measured"]
    for title in order:
        parts += [f"## {title}", *sections[title].values()]
    return "\n\n".join(parts) + "\n"


def _sections(page: str) -> Sections:
    """Those of an earlier export: reports that are in the folder already stay on its page."""
    found: Sections = {}
    for chapter in page.split("\n## ")[1:]:
        title, *texts = chapter.split("\n### ")
        linked = [(re.search(r"\]\((.*?)/", text), text) for text in texts]
        found[title.strip()] = {unquote(m[1]): f"### {text.strip()}" for m, text in linked if m}
    return found


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
    timed = "the runs trained here" if findings.get("elsewhere") else "all runs"
    lines += ["", f"{every} {minutes:.0f} minutes of training in {timed}."]
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
