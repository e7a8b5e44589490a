"""The page over all exported reports: a summary, then every claim.

`python -m ibnn.lab.report.exported docs/results` writes it again; no run is needed.
"""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from ibnn.lab import files
from ibnn.lab.files import StrPath
from ibnn.lab.report.entry import Entry, read_entries
from ibnn.lab.report.markdown import Marked, claim_tables, plain, table
from ibnn.lab.report.overview import by_experiment

README = "README.md"
SMOKE = "**Preset smoke: the numbers mean nothing.**"

_INTRODUCTION = (
    "One line per report, then the claims of each. *Epochs* and *Examples* are those of training; "
    "*Answers* counts the claims and questions of a report by their answer (open: not decided). "
    "The report itself has settings, tables, figures and a CSV file with every number."
)
_COLUMNS = ("Experiment", "Dataset", "Preset", "Epochs", "Examples", "Headline", "Answers")


def overview_page(target: StrPath) -> str:
    """The page over every report that was exported to a folder; other folders are passed over."""
    found, _ = read_entries(target)
    parts = ["# Results", _INTRODUCTION, _summary(found)]
    for title, entries in by_experiment(found):
        parts.append(f"## {plain(title)}")
        for entry in entries:
            parts.append(f"### [{plain(entry.where)}]({_link(entry)})")
            parts += [SMOKE] if entry.is_smoke else []
            parts.append(plain(entry.findings["headline"]))
            parts.append("\n".join(claim_tables(entry.findings["claims"])).rstrip())
    return "\n\n".join(parts) + "\n"


def _summary(entries: Sequence[Entry]) -> str:
    rows = [
        (
            Marked(f"[{plain(entry.findings['title'])}]({_link(entry)})"),
            *(entry.where, entry.findings["preset"], entry.epochs or "-", entry.examples),
            Marked(SMOKE) if entry.is_smoke else shortened(entry.findings["headline"]),
            _answers(entry),
        )
        for entry in entries
    ]
    return "\n".join(table(_COLUMNS, rows))


def _link(entry: Entry) -> str:
    return f"{quote(entry.folder)}/{README}"


def _answers(entry: Entry) -> str:
    """How many claims have each answer."""
    found = Counter(claim["agrees"] for claim in entry.findings["claims"])
    return f"{found['yes']} yes, {found['no']} no, {found['not decided']} open"


def shortened(text: str, most: int = 240) -> str:
    """The first sentence of a headline, and what follows while it fits; no question stays without
    its answer.

    >>> shortened("Better: +1.5 points (5 pairs). Does it last? No.", 45)
    'Better: +1.5 points (5 pairs).'
    """
    sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z])", text)
    fit = [
        short
        for count in range(1, len(sentences) + 1)
        if len(short := " ".join(sentences[:count])) <= most and not short.endswith("?")
    ]
    return fit[-1] if fit else sentences[0]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    files.write_text(folder / README, overview_page(folder))
