"""The page over all exported reports, read from their Markdown: a summary, then every claim.

`python -m ibnn.lab.report.exported docs/results` writes it again; no run is needed.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from ibnn.lab import files
from ibnn.lab.experiments.registry import names
from ibnn.lab.files import StrPath

README = "README.md"
SMOKE = "**Preset smoke: the numbers mean nothing.**"
CLAIMS = "## Claims, and what was measured"
# of reports that version 0.2.0 and earlier exported
_EARLIER = "## What the paper says, and what was measured here"

_INTRODUCTION = (
    "One line per report, then the claims of each. *Epochs* and *Examples* are those of training; "
    "*Answers* counts the claims and questions of a report by their answer (open: not decided). "
    "The report itself has settings, tables, figures and a CSV file with every number."
)


@dataclass(frozen=True)
class Exported:
    """One exported report, as its page has it: all texts are Markdown already."""

    folder: str
    experiment: str
    title: str
    where: str  # the dataset, and how lam was chosen if not in the usual way
    is_smoke: bool
    headline: str
    claims: str  # the tables
    preset: str
    epochs: str
    examples: str

    @property
    def link(self) -> str:
        return f"{quote(self.folder)}/{README}"

    def answers(self) -> str:
        """How many claims have each answer."""
        found = Counter(re.findall(r"\*\*(yes|no|not decided)\*\* \|$", self.claims, re.M))
        return f"{found['yes']} yes, {found['no']} no, {found['not decided']} open"


def overview_page(target: StrPath) -> str:
    """The page over every report that was exported to a folder."""
    reports = list(read_reports(target))
    known = {name: place for place, name in enumerate(names())}
    reports.sort(key=lambda r: (known.get(r.experiment, len(known)), r.title, r.folder))
    parts = ["# Results", _INTRODUCTION, _summary(reports)]
    previous = ""
    for report in reports:
        if report.title != previous:
            parts.append(f"## {report.title}")
        previous = report.title
        parts.append(f"### [{report.where}]({report.link})")
        parts += [SMOKE] if report.is_smoke else []
        parts += [report.headline, report.claims]
    return "\n\n".join(parts) + "\n"


def read_reports(target: StrPath) -> Iterator[Exported]:
    """Every exported report in the folders of `target`; other folders are passed over."""
    for file in sorted(Path(target).glob(f"*/{README}")):
        text = file.read_text(encoding="utf-8")
        heading = re.match(r"# (.+): (.+)\n", text)
        data = re.search(r"^Every number: \[.*?\]\((.+?)\.csv\)", text, re.M)
        claims = re.search(
            rf"^(?:{re.escape(CLAIMS)}|{re.escape(_EARLIER)})\n\n(.*?)\n*(?=^## )",
            text,
            re.M | re.S,
        )
        if heading is None or data is None or claims is None:
            continue
        paragraphs = text.split("\n\n")
        is_smoke = paragraphs[1] == SMOKE
        yield Exported(
            folder=file.parent.name,
            experiment=unquote(data[1]),
            title=heading[1],
            where=heading[2],
            is_smoke=is_smoke,
            headline=paragraphs[1 + is_smoke],
            claims=claims[1],
            preset=_setting(text, r"- Preset: (\S+)"),
            epochs=_setting(text, r"- (?:[^:\n]+: )?Training: (\d+) epochs"),
            examples=_setting(text, r"- Data: .*, ([\d,]+(?: to [\d,]+)?) training"),
        )


def _setting(page: str, pattern: str) -> str:
    """What the settings of a report have at the pattern; several values with commas."""
    return ", ".join(dict.fromkeys(re.findall(f"^{pattern}", page, re.M)))


def _summary(reports: Sequence[Exported]) -> str:
    lines = [
        "| Experiment | Dataset | Preset | Epochs | Examples | Headline | Answers |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in reports:
        cells = (
            f"[{r.title}]({r.link})",
            *(r.where, r.preset, r.epochs or "-", r.examples),
            SMOKE if r.is_smoke else shortened(r.headline),
            r.answers(),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
