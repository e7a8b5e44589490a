"""One page over all reports of a folder: every claim of the paper, and what holds where."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibnn
from ibnn.lab import files
from ibnn.lab.experiments.registry import names
from ibnn.lab.files import StrPath
from ibnn.lab.report.output import embedded, template
from ibnn.lab.report.page import FINDINGS, ReportError, read_findings
from ibnn.lab.report.write import ABOUT, PAGE
from ibnn.lab.results import RULE

OVERVIEW = "index.html"


@dataclass(frozen=True)
class Entry:
    """One report: where it is and what it found."""

    folder: str
    findings: dict[str, Any]
    picture: str  # its first figure, embedded

    @property
    def where(self) -> str:
        """The dataset, and how lam was found and seeds were chosen if not in the usual way."""
        lam, first_seed = self.findings["lam"], self.findings.get("first_seed", 0)
        return (
            self.findings["dataset"]
            + (f", lam {lam}" if lam else "")
            + (f", seeds from {first_seed}" if first_seed else "")
        )

    @property
    def is_smoke(self) -> bool:
        """Whether its numbers mean nothing."""
        return self.findings["preset"] == "smoke"


@dataclass(frozen=True)
class Chapter:
    """The reports of one experiment."""

    title: str
    entries: Sequence[Entry]


def write_overview(root: StrPath) -> Path:
    """Write `<root>/index.html` from the findings of every report below."""
    found, outdated = chapters(root)
    page = Path(root) / OVERVIEW
    text = template("overview.html.j2").render(
        chapters=found,
        smoke=any(entry.is_smoke for chapter in found for entry in chapter.entries),
        outdated=outdated,
        page_name=PAGE,
        rule=RULE,
        version=ibnn.__version__,
    )
    files.write_text(page, text)
    return page


def chapters(root: StrPath) -> tuple[list[Chapter], list[str]]:
    """The reports below a folder by experiment, in the order of `ibnn run --help`; and the folders
    of those another version of ibnn made, which are not summed up until made again."""
    entries: dict[str, list[Entry]] = {}
    outdated: list[str] = []
    for file in sorted(Path(root).glob(f"*/{FINDINGS}")):
        if not (file.parent / ABOUT).is_file():
            continue
        findings = read_findings(file)
        if findings is None:
            outdated.append(file.parent.name)
            continue
        name = f"{findings['pictures'][0]['name']}.png"
        picture = embedded({name: (file.parent / name).read_bytes()})[name]
        entry = Entry(file.parent.name, findings, picture)
        entries.setdefault(findings["experiment"], []).append(entry)
    if not entries and not outdated:
        raise ReportError(f"{root} has no report: no folder in it has a {FINDINGS}")
    known = [name for name in names() if name in entries]
    order = [*known, *(name for name in entries if name not in known)]
    return [Chapter(entries[name][0].findings["title"], entries[name]) for name in order], outdated
