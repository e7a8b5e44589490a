"""Reports as Markdown with figures and CSV beside it: small enough to keep with a project."""

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ibnn.lab import files
from ibnn.lab.files import StrPath
from ibnn.lab.report.exported import CLAIMS, README, SMOKE, overview_page
from ibnn.lab.report.overview import Entry, chapters


def export(root: StrPath, target: StrPath, reports: Collection[str] | None = None) -> list[Path]:
    """Write one folder per report below `root`, and a page over all of them; the pages' paths.

    `reports` are the names of the folders to take, by default all.
    Reports that were exported to `target` before stay there, and on its page.
    """
    found, _ = chapters(root)
    written = []
    for chapter in found:
        for entry in chapter.entries:
            if reports is not None and entry.folder not in reports:
                continue
            source, goal = Path(root) / entry.folder, Path(target) / entry.folder
            goal.mkdir(parents=True, exist_ok=True)
            data = f"{entry.findings['experiment']}.csv"
            pictures = [f"{picture['name']}.png" for picture in entry.findings["pictures"]]
            for name in (data, *pictures):
                files.write_bytes(goal / name, (source / name).read_bytes())
            files.write_text(goal / README, _page(entry, data))
            written.append(goal / README)
    page = Path(target) / README
    files.write_text(page, overview_page(target))
    return [page, *written]


def _page(entry: Entry, data: str) -> str:
    findings = entry.findings
    lines = [f"# {_plain(findings['title'])}: {_plain(entry.where)}", ""]
    lines += [SMOKE, ""] if entry.is_smoke else []
    lines += [_plain(findings["headline"]), ""]
    if findings["missing"]:
        lines += [f"**{findings['missing']} runs are missing; this page shows the rest.**", ""]
    for picture in findings["pictures"]:
        name = picture["name"]
        lines += [f"![{_plain(name)}]({quote(name)}.png)", "", _plain(picture["caption"]), ""]
    lines += [CLAIMS, "", *_claims(findings["claims"])]
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


def _claims(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """One table of the paper's statements, one of our questions; an empty one is left out."""
    lines = []
    for head, ours in (("The paper says", "Agrees"), False), (("Question", "Answer"), True):
        rows = [
            (claim["paper"], claim["measured"], claim["agrees"])
            for claim in claims
            if claim.get("ours", False) == ours
        ]
        if rows:
            top, rule, *body = _table((head[0], "Measured here", head[1]), rows)
            # the answer, last in its row, stands out
            body = [re.sub(r" ([^|]+) \|$", r" **\1** |", line) for line in body]
            lines += [top, rule, *body, ""]
    return lines


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(columns), "| " + " | ".join(["---"] * len(columns)) + " |", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _list(lines: Iterable[str]) -> list[str]:
    return [f"- {_plain(line)}" for line in lines]
