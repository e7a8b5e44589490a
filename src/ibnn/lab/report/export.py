"""Reports as Markdown with figures and CSV beside it: small enough to keep with a project."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ibnn.lab import files
from ibnn.lab.report.overview import chapters
from ibnn.lab.report.write import FINDINGS, ReportError

README = "README.md"


def export(root: str | os.PathLike[str], target: str | os.PathLike[str]) -> list[Path]:
    """Write one folder per report below `root`, and a page with every claim; the pages' paths."""
    found = chapters(root)
    if not found:
        raise ReportError(f"{root} has no report: no folder in it has a {FINDINGS}")
    written = []
    for chapter in found:
        for entry in chapter.entries:
            source, goal = Path(root) / entry.folder, Path(target) / entry.folder
            goal.mkdir(parents=True, exist_ok=True)
            findings = json.loads((source / FINDINGS).read_text())
            for picture in findings["pictures"]:
                shutil.copyfile(source / f"{picture['name']}.png", goal / f"{picture['name']}.png")
            data = f"{findings['experiment']}.csv"
            shutil.copyfile(source / data, goal / data)
            files.write_text(goal / README, _page(findings, data))
            written.append(goal / README)
    lines = ["# Every claim, and what was measured", ""]
    for chapter in found:
        lines += [f"## {chapter.title}", ""]
        for entry in chapter.entries:
            lines += [f"### [{entry.where}]({entry.folder}/{README})", ""]
            lines += [entry.findings["headline"], "", *_claims(entry.findings["claims"]), ""]
    files.write_text(Path(target) / README, "\n".join(lines))
    return [Path(target) / README, *written]


def _page(findings: dict[str, Any], data: str) -> str:
    lines = [f"# {findings['title']}: {findings['dataset']}", "", findings["headline"], ""]
    if findings["missing"]:
        lines += [f"**{findings['missing']} runs are missing; this page shows the rest.**", ""]
    for picture in findings["pictures"]:
        lines += [f"![{picture['name']}]({picture['name']}.png)", "", picture["caption"], ""]
    lines += ["## What the paper says, and what was measured here", ""]
    lines += [*_claims(findings["claims"]), ""]
    for table in findings["tables"]:
        lines += [f"## {table['title']}", "", *_table(table["columns"], table["rows"]), ""]
    lines += ["## What was reduced", "", *_list(findings["reduced"] or ["Nothing."]), ""]
    lines += ["## Choices and cautions", "", *_list(findings["notes"]), ""]
    lines += ["## Settings", "", *_list(f"{name}: {text}" for name, text in findings["settings"])]
    minutes = findings["seconds"] / 60
    lines += ["", f"Every number: [{data}]({data}). {minutes:.0f} minutes of training in all runs."]
    return "\n".join(lines) + "\n"


def _claims(claims: Sequence[dict[str, str]]) -> list[str]:
    rows = [(c["paper"], c["measured"], f"**{c['agrees']}**") for c in claims]
    return _table(("The paper says", "Measured here", "Agrees"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [_row(columns), _row(["---"] * len(columns))]
    return lines + [_row(row) for row in rows]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _list(lines: Iterable[str]) -> list[str]:
    return [f"- {line}" for line in lines]
