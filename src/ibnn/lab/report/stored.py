"""`findings.json`: what a report leaves for pages over several reports, written and read."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ibnn.lab.report.page import Page

FINDINGS = "findings.json"
FINDINGS_VERSION = 2


class ReportError(Exception):
    """A folder no report can be made of; one line."""


def summary(page: Page) -> dict[str, Any]:
    """What an overview of several reports needs to know of this one."""
    findings, experiment, settings = page.findings, page.experiment, page.settings
    return {
        "version": FINDINGS_VERSION,
        "experiment": experiment.name,
        "title": experiment.title,
        "dataset": experiment.dataset(settings),
        "preset": settings.preset,
        "lam": settings.lam,
        "headline": findings.headline,
        "rule": findings.rule,
        "claims": [asdict(claim) for claim in findings.claims],
        "pictures": [{"name": p.name, "caption": p.caption} for p in findings.pictures],
        "tables": [asdict(table) for table in findings.tables],
        "settings": [list(line) for line in page.choices()],
        "reduced": list(experiment.preset(settings).reduced),
        "notes": list(findings.notes),
        "runs": len(page.runs),
        "missing": len(page.missing),
        "seconds": sum(run.result.seconds for run in page.runs),
    }


def read_findings(file: Path) -> dict[str, Any] | None:
    """What a report left; None if another version of ibnn wrote it.

    Names of files in it must be names in its own folder: the file may come from anywhere.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["version"] != FINDINGS_VERSION:
            return None
        names = [found["experiment"], *(picture["name"] for picture in found["pictures"])]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{file} cannot be read: {error!r}") from None
    for name in names:
        if not is_plain(name):
            raise ReportError(f"{file} names {name!r}, expected the name of a file beside it")
    return found


def is_plain(name: object) -> bool:
    """Whether this is a name without a folder.

    >>> is_plain("lam"), is_plain("../lam"), is_plain(".."), is_plain("a" + chr(92) + "b")
    (True, False, False, False)
    """
    return isinstance(name, str) and name not in ("", ".", "..") and not {*"/\\\0"} & {*name}
