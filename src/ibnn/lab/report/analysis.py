"""The report of an analysis: one page with every figure, and PNG, CSV and JSON beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ibnn
from ibnn.lab import files
from ibnn.lab.analysis.run import Analysis
from ibnn.lab.plotting.style import style
from ibnn.lab.report.output import csv_text, embedded, image_bytes, template

PAGE, NUMBERS = "report.html", "analysis.json"
VERSION = 1


def write_analysis(
    analysis: Analysis,
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
            for section in analysis.sections
            for picture in section.pictures
        }
    tables = {
        f"{section.name}.csv": csv_text(section.rows)
        for section in analysis.sections
        if section.rows
    }
    numbers = {
        "version": VERSION,
        "title": title,
        "settings": dict(settings),
        "hardware": dict(hardware),
        "seconds": {name: round(value, 2) for name, value in analysis.seconds.items()},
        "skipped": analysis.skipped,
        "failed": analysis.failed,
        "sections": {
            section.name: {
                "title": section.title,
                "text": list(section.text),
                "rows": [_finite(row) for row in section.rows],
            }
            for section in analysis.sections
        },
    }
    page = template("analysis.html.j2").render(
        analysis=analysis,
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
