"""One page over all reports of a folder: every claim of the paper, and what holds where."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibnn
from ibnn.lab import files
from ibnn.lab.experiments.registry import names
from ibnn.lab.report.output import embedded, template
from ibnn.lab.report.write import ABOUT, FINDINGS, FINDINGS_VERSION, PAGE, ReportError

OVERVIEW = "index.html"


@dataclass(frozen=True)
class Entry:
    """One report: where it is and what it found."""

    folder: str
    findings: dict[str, Any]
    picture: str  # its first figure, embedded

    @property
    def where(self) -> str:
        """The dataset, and how lam was found if not in the usual way."""
        lam = self.findings["lam"]
        return self.findings["dataset"] + (f", lam {lam}" if lam else "")


@dataclass(frozen=True)
class Chapter:
    """The reports of one experiment."""

    title: str
    entries: Sequence[Entry]


def write_overview(root: str | os.PathLike[str]) -> Path:
    """Write `<root>/index.html` from the findings of every report below."""
    found = chapters(root)
    if not found:
        raise ReportError(f"{root} has no report: no folder in it has a {FINDINGS}")
    page = Path(root) / OVERVIEW
    text = template("overview.html.j2").render(
        chapters=found, outdated=outdated(root), page_name=PAGE, version=ibnn.__version__
    )
    files.write_text(page, text)
    return page


def outdated(root: str | os.PathLike[str]) -> list[str]:
    """The reports another version of ibnn made: they are not summed up until made again."""
    found = sorted(Path(root).glob(f"*/{FINDINGS}"))
    return [
        file.parent.name
        for file in found
        if json.loads(file.read_text())["version"] != FINDINGS_VERSION
    ]


def chapters(root: str | os.PathLike[str]) -> list[Chapter]:
    """The reports below a folder by experiment, in the order of `ibnn run --help`."""
    entries: dict[str, list[Entry]] = {}
    for file in sorted(Path(root).glob(f"*/{FINDINGS}")):
        if (file.parent / ABOUT).is_file():
            findings = json.loads(file.read_text())
            if findings["version"] != FINDINGS_VERSION:
                continue
            name = f"{findings['pictures'][0]['name']}.png"
            picture = embedded({name: (file.parent / name).read_bytes()})[name]
            entry = Entry(file.parent.name, findings, picture)
            entries.setdefault(findings["experiment"], []).append(entry)
    order = [name for name in names() if name in entries]
    return [Chapter(entries[name][0].findings["title"], entries[name]) for name in order]
