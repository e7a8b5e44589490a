"""One page over all reports of a folder: every claim of the paper, and what holds where."""

from itertools import groupby
from pathlib import Path

import ibnn
from ibnn.lab import files
from ibnn.lab.files import StrPath
from ibnn.lab.report.entry import Entry, read_entries
from ibnn.lab.report.output import embedded, template
from ibnn.lab.report.page import FINDINGS, ReportError
from ibnn.lab.report.write import PAGE
from ibnn.lab.results import RULE

OVERVIEW = "index.html"


def write_overview(root: StrPath) -> Path:
    """Write `<root>/index.html` from the findings of every report below."""
    found, outdated = read_entries(root)
    if not found and not outdated:
        raise ReportError(f"{root} has no report: no folder in it has a {FINDINGS}")

    def picture(entry: Entry) -> str:
        """The first figure of a report, embedded."""
        name = f"{entry.findings['pictures'][0]['name']}.png"
        return embedded({name: (Path(root) / entry.folder / name).read_bytes()})[name]

    page = Path(root) / OVERVIEW
    text = template("overview.html.j2").render(
        chapters=by_experiment(found),
        picture=picture,
        smoke=any(entry.is_smoke for entry in found),
        outdated=outdated,
        page_name=PAGE,
        rule=RULE,
        version=ibnn.__version__,
    )
    files.write_text(page, text)
    return page


def by_experiment(entries: list[Entry]) -> list[tuple[str, list[Entry]]]:
    """Reports that stand in the order of their experiments, with the titles of these."""
    groups = groupby(entries, lambda entry: entry.findings["experiment"])
    chapters = [list(group) for _, group in groups]
    return [(chapter[0].findings["title"], chapter) for chapter in chapters]
