"""Reports as Markdown with figures, CSV and JSON beside it: small enough to keep with a project."""

from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote

from ibnn.lab import files
from ibnn.lab.files import StrPath
from ibnn.lab.report.entry import Entry, read_entries
from ibnn.lab.report.exported import README, SMOKE, overview_page
from ibnn.lab.report.markdown import bullets, claim_tables, plain, table
from ibnn.lab.report.page import FINDINGS


def export(root: StrPath, target: StrPath, reports: Collection[str] | None = None) -> list[Path]:
    """Write one folder per report below `root`, and a page over all of them; the pages' paths.

    `reports` are the names of the folders to take, by default all.
    Reports that were exported to `target` before stay there, and on its page.
    """
    found, _ = read_entries(root)
    written = []
    for entry in found:
        if reports is not None and entry.folder not in reports:
            continue
        source, goal = Path(root) / entry.folder, Path(target) / entry.folder
        goal.mkdir(parents=True, exist_ok=True)
        pictures = [f"{picture['name']}.png" for picture in entry.findings["pictures"]]
        for name in (_data(entry), *pictures, FINDINGS):
            files.write_bytes(goal / name, (source / name).read_bytes())
        files.write_text(goal / README, report_page(entry))
        written.append(goal / README)
    page = Path(target) / README
    files.write_text(page, overview_page(target))
    return [page, *written]


def report_page(entry: Entry) -> str:
    """The page of one report."""
    findings, data = entry.findings, _data(entry)
    lines = [f"# {plain(findings['title'])}: {plain(entry.where)}", ""]
    lines += [SMOKE, ""] if entry.is_smoke else []
    lines += [plain(findings["headline"]), ""]
    if findings["missing"]:
        lines += [f"**{findings['missing']} runs are missing; this page shows the rest.**", ""]
    for picture in findings["pictures"]:
        name = picture["name"]
        lines += [f"![{plain(name)}]({quote(name)}.png)", "", plain(picture["caption"]), ""]
    lines += ["## Claims, and what was measured", "", *claim_tables(findings["claims"])]
    for one in findings["tables"]:
        lines += [f"## {plain(one['title'])}", "", *table(one["columns"], one["rows"]), ""]
    lines += ["## What was reduced", "", *bullets(findings["reduced"] or ["Nothing."]), ""]
    if findings["notes"]:
        lines += ["## Measured besides", "", *bullets(findings["notes"]), ""]
    lines += ["## Settings", "", *bullets(f"{name}: {text}" for name, text in findings["settings"])]
    minutes = findings["seconds"] / 60
    every = f"Every number: [{plain(data)}]({quote(data)})."
    timed = "the runs trained here" if findings.get("elsewhere") else "all runs"
    lines += ["", f"{every} {minutes:.0f} minutes of training in {timed}."]
    again = findings.get("command")
    lines += ["", f"Made by `{again}`."] if again else []
    return "\n".join(lines) + "\n"


def _data(entry: Entry) -> str:
    return f"{entry.findings['experiment']}.csv"
