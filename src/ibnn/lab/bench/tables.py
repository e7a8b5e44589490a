"""The tables: on the terminal, as markdown, as CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ibnn.lab import files
from ibnn.lab.bench.columns import COLUMNS, TITLES, text
from ibnn.lab.bench.machine import describe

Rows = Sequence[dict[str, Any]]
_COLOURS = {"aim met": "green", "met": "green", "not met": "red", "not measured": "dim"}


def show(console: Console, section: str, rows: Rows) -> None:
    table = Table(title=TITLES[section], title_justify="left")
    for column in COLUMNS[section]:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        style = _COLOURS.get(row["state"]) if section == "verdict" else None
        table.add_row(*(text(row.get(column)) for column in COLUMNS[section]), style=style)
    console.print(table)


def markdown(section: str, rows: Rows) -> str:
    """A heading and one table; `|` inside a cell is escaped."""
    columns = COLUMNS[section]
    lines = [f"## {TITLES[section]}", ""]
    lines.append("| " + " | ".join(column.replace("_", " ") for column in columns) + " |")
    lines.append("|" + "---|" * len(columns))
    for row in rows:
        cells = (text(row.get(column)).replace("|", "\\|") for column in columns)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def csv_text(rows: Rows) -> str:
    """Every column, those of the first row first."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def save(
    folder: Path,
    machine: dict[str, Any],
    settings: dict[str, Any],
    results: Mapping[str, Rows],
    verdict: Rows,
    notes: Sequence[str],
) -> None:
    """`results.json`, `tables.md`, and one CSV per section."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = {"verdict": verdict, **results}
    record = {"machine": machine, "settings": settings, "notes": list(notes)}
    files.write_json(folder / "results.json", _finite({**record, "results": everything}))
    for section, rows in everything.items():
        files.write_text(folder / f"{section}.csv", csv_text(rows))
    head = ["# Benchmarks", "", describe(machine), "", *(f"- {note}" for note in notes), ""]
    tables = (markdown(section, rows) for section, rows in everything.items())
    files.write_text(folder / "tables.md", "\n".join([*head, *tables]))


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, (list, tuple)) else value
