"""The tables: which columns are shown; on the terminal, as markdown, as CSV and JSON."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ibnn.lab import files
from ibnn.lab.bench.machine import describe
from ibnn.lab.report.markdown import table as markdown_table
from ibnn.lab.report.output import csv_text

Rows = Sequence[dict[str, Any]]
_COLORS = {"aim met": "green", "met": "green", "not met": "red"}
_UNKNOWN = "not measured"
# characters around a cell, and the longest cell that is not folded
_BORDER, _LONGEST = 3, 42

_QUALITY = ("error", "gradient_error", "steps", "converged")

TITLES = {
    "layers": "One layer against nn.Conv2d + ReLU",
    "peers": "What a user could do instead, on the same equation",
    "training": "One training step, implicit against standard network",
    "growth": "Growth with the number of units D (forward + backward of F)",
    "startup": "The first call of a process, beyond `import torch`",
    "cliffs": "By row length, coupling, sigma, precision and network: forward + backward, lam -0.1",
    "busy": "The same solves with another process on each core",
    "accuracy": "Error against the dense float64 solve",
    "verdict": "Numbers to reach",
}

COLUMNS: dict[str, tuple[str, ...]] = {
    "layers": (
        *("shape", "lam", "std", "engine", "ratio_both", "ratio_forward"),
        *("ms_both", "standard_ms_both", *_QUALITY, "memory", "memory_added"),
    ),
    "peers": (
        *("shape", "sums", "lam", "peer", "ratio_to_ours", "ratio_to_conv"),
        *("ms_both", "ms_forward", "error", "gradient_error", "steps", "memory_layer"),
    ),
    "training": ("network", "image", "lam", "engine", "ratio", "ms", "standard_ms", "std"),
    "growth": ("units", "rows", "engine", "ns_per_unit", "seconds", "single_row_seconds"),
    "startup": ("engine", "start", "seconds", "processes"),
    "cliffs": (
        *("case", "std", "ratio", "required", "aim", "state", "low", "high"),
        *("ratio_wall", "ms", "standard_ms", "ms_wall"),
    ),
    "busy": ("case", "std", "slowed", "quiet_ms", "busy_ms", "standard_slowed"),
    "accuracy": ("part", "lam", "slope", "std", "engine", *_QUALITY),
    "verdict": ("name", "state", "measured", "required", "aim", "unit", "where"),
}


def text(value: Any) -> str:
    """A number with the digits that matter; nothing for what was not measured."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if value and (abs(value) < 1e-3 or abs(value) >= 1e5):
        return f"{value:.1e}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def show(console: Console, section: str, rows: Rows) -> None:
    """The columns that fit the width, most important first; the files have all of them."""
    shown = [row for row in rows if section != "verdict" or row["state"] != _UNKNOWN]
    cells = {name: [text(row.get(name)) for row in shown] for name in COLUMNS[section]}
    fitting = _fitting(cells, console.width)
    table = Table(title=TITLES[section], title_justify="left", title_style="bold")
    for name in fitting:
        table.add_column(name.replace("_", " "), overflow="fold", max_width=_LONGEST)
    for index, row in enumerate(shown):
        style = _COLORS.get(row["state"]) if section == "verdict" else None
        table.add_row(*(cells[name][index] for name in fitting), style=style)
    console.print(table)
    if len(fitting) < len(cells):
        hidden = ", ".join(name.replace("_", " ") for name in cells if name not in fitting)
        console.print(f"Not shown here: {hidden}", style="dim", highlight=False)
    if len(shown) < len(rows):
        console.print(f"{len(rows) - len(shown)} more goals were not measured in this run.")


def _fitting(cells: Mapping[str, Sequence[str]], width: int) -> list[str]:
    """The first columns that fit side by side, two at least."""
    fitting, used = [], 1
    for name, column in cells.items():
        used += _BORDER + min(_LONGEST, max(map(len, (name, *column))))
        if used > width and len(fitting) >= 2:
            break
        fitting.append(name)
    return fitting


def markdown(section: str, rows: Rows) -> str:
    """A heading and one table."""
    columns = COLUMNS[section]
    names = [column.replace("_", " ") for column in columns]
    cells = ([text(row.get(column)) for column in columns] for row in rows)
    return "\n".join([f"## {TITLES[section]}", "", *markdown_table(names, cells)]) + "\n"


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
