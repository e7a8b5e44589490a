"""The numbers of the transfer experiment: tables and CSV."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.transfer.conversions import LAMBDAS, WAYS
from ibnn.lab.experiments.transfer.readings import Conversions, Reading
from ibnn.lab.results import Table
from ibnn.lab.stats import percent
from ibnn.lab.theory_checks.transfer.claims import COLUMNS


def tables(found: Conversions) -> list[Table]:
    return [
        _table(found, "accuracy", "Validation accuracy"),
        _table(found, "attacked", "Robust accuracy"),
        *([_margin_table(found)] if found.margins else []),
    ]


def _table(found: Conversions, reading: Reading, title: str) -> Table:
    def cell(way: str, lam: float) -> str:
        middle = percent(median(found.values(reading, way, lam).values()))
        change = found.difference(reading, way, lam)
        return f"{middle}; {change.short()}" if lam and change else middle

    return Table(
        f"{title}: median; and the mean change from λ = 0 with its 95 % interval, in points",
        ("λ", *(way.capitalize() for way in WAYS)),
        [(f"{lam:g}", *(cell(way, lam) for way in WAYS)) for lam in LAMBDAS],
    )


def _margin_table(found: Conversions) -> Table:
    every = list(found.margins.values())

    def middle(index: int, key: str) -> str:
        return f"{median(m['points'][index][key] for m in every):.3f}"

    rows = [
        {"λ": f"{lam:g}", **{name: middle(index, key) for name, key in COLUMNS.items()}}
        for index, lam in enumerate(LAMBDAS)
    ]
    return Table.of("Margins: median", rows)


def rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The CSV: one line for each seed, lam and way, and for each margin."""
    lines: list[dict[str, Any]] = []
    for run in runs:
        own = {"seed": run.config.seed, "run": run.result.identity}
        for point in run.measured["points"]:
            accuracies = {"accuracy": point["accuracy"], "robust_accuracy": point["attacked"]}
            lines.append({**own, "lam": point["lam"], "way": point["way"], **accuracies})
        margin = run.measured["margin"]
        for point in margin["points"] if margin else ():
            numbers = {key: point[key] for key in COLUMNS.values()}
            lines.append({**own, "lam": point["lam"], "way": "margin", **numbers})
    return lines
