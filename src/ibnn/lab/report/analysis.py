"""The page of `ibnn analyze`: every section with its figures, and PNG, CSV and JSON beside it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ibnn
from ibnn.lab import files
from ibnn.lab.plotting.style import style
from ibnn.lab.report.output import csv_text, embedded, image_bytes, template
from ibnn.lab.theory_checks.run import CheckResults

PAGE, NUMBERS = "report.html", "analysis.json"
VERSION = 2  # of analysis.json; 1 had sentences ("text") where 2 has claims and notes


def write_analysis(
    found: CheckResults,
    folder: Path,
    *,
    title: str,
    settings: Sequence[tuple[str, str]],
    hardware: Sequence[tuple[str, str]],
) -> Path:
    """Write `<folder>/report.html` and what belongs to it; figures are drawn before anything is
    written."""
    with style():
        images = {
            f"{picture.name}.png": image_bytes(picture.figure, "png")
            for section in found.sections
            for picture in section.pictures
        }
    tables = {f"{s.name}.csv": csv_text(s.rows) for s in found.sections if s.rows}
    numbers = {
        "version": VERSION,
        "title": title,
        "settings": dict(settings),
        "hardware": dict(hardware),
        "seconds": {name: round(value, 2) for name, value in found.seconds.items()},
        "skipped": found.skipped,
        "failed": found.failed,
        "sections": {
            section.name: {
                "title": section.title,
                "claims": [asdict(claim) for claim in section.claims],
                "notes": list(section.notes),
                "rows": [_finite(row) for row in section.rows],
            }
            for section in found.sections
        },
    }
    page = template("analysis.html.j2").render(
        found=found,
        title=title,
        settings=settings,
        hardware=hardware,
        embedded=embedded(images),
        files=[*tables, *images, NUMBERS],
        version=ibnn.__version__,
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in images.items():
        files.write_bytes(folder / name, content)
    for name, text in tables.items():
        files.write_text(folder / name, text)
    files.write_json(folder / NUMBERS, numbers)
    files.write_text(folder / PAGE, page)
    return folder / PAGE


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: None stands for it."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }
