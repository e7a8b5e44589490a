"""The numbers that were set as a goal, beside the measured ones."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ibnn.lab.bench import growth

Rows = Sequence[dict[str, Any]]
Results = Mapping[str, Rows]
# The measured number and where it was measured; None where it was not.
Measured = tuple[float, str] | None


@dataclass(frozen=True)
class Goal:
    """A number that must not exceed `required`, and better not `aim`."""

    name: str
    required: float
    aim: float | None
    unit: str
    measured: Callable[[Results], Measured]


def judge(value: float | None, required: float, aim: float | None) -> str:
    """ "aim met", "met", "not met", or "not measured".

    >>> judge(2.0, required=3.0, aim=1.5)
    'met'
    """
    if value is None:
        return "not measured"
    if not value <= required:  # NaN is not met
        return "not met"
    return "aim met" if aim is not None and value <= aim else "met"


def verdicts(results: Results) -> list[dict[str, Any]]:
    """One row for each goal."""
    rows = []
    for goal in GOALS:
        value, where = goal.measured(results) or (None, "")
        rows.append(
            {
                "name": goal.name,
                "required": goal.required,
                "aim": goal.aim,
                "unit": goal.unit,
                "measured": value if value is None or math.isfinite(value) else None,
                "where": where,
                "state": judge(value, goal.required, goal.aim),
            }
        )
    return rows


def worst(rows: Rows, column: str, where: Sequence[str], **fixed: Any) -> Measured:
    """The largest value of a column among the rows with these values, and its conditions."""
    chosen = [
        row
        for row in rows
        if row.get(column) is not None
        and all(row.get(key) == value for key, value in fixed.items())
    ]
    if not chosen:
        return None
    # NaN is larger than everything: it must not hide
    top = max(chosen, key=lambda row: math.inf if math.isnan(row[column]) else row[column])
    place = ", ".join(f"{key} {_short(top[key])}" for key in where)
    return top[column], f"worst of {len(chosen)}: {place}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _worst(section: str, column: str, *where: str, **fixed: Any) -> Callable[[Results], Measured]:
    return lambda results: worst(results.get(section, ()), column, where, **fixed)


def _layer(column: str, **fixed: Any) -> Callable[[Results], Measured]:
    return _worst("layers", column, "shape", "lam", "std", **fixed)


def _exponent(engine: str) -> Callable[[Results], Measured]:
    def measured(results: Results) -> Measured:
        rows = [row for row in results.get("growth", ()) if row["engine"] == engine]
        value = growth.fitted(rows, engine)
        if value is None:
            return None
        return value, f"D up to {max(row['units'] for row in rows):,}"

    return measured


def _both_ways(engine: str, hard: bool = False) -> Callable[[Results], Measured]:
    return _layer("ratio_both", engine=engine, hard=hard)


def _start(start: str) -> Callable[[Results], Measured]:
    return _worst("startup", "seconds", "start", engine="native", start=start)


_STEP = _worst("training", "ratio", "network", "lam", engine="native")
_SLOWED = _worst("busy", "slowed", "case")
_GRID = _worst("accuracy", "error", "engine", "lam", "slope", "std")

GOALS = (
    Goal("layer forward+backward / Conv2d+ReLU, native", 3.0, 1.5, "x", _both_ways("native")),
    Goal("layer forward+backward / Conv2d+ReLU, portable", 8.0, 4.0, "x", _both_ways("portable")),
    Goal("lam = -1, std 0.3 (hard), native", 6.0, 3.0, "x", _both_ways("native", hard=True)),
    Goal("training step / standard network's, native", 2.0, 1.3, "x", _STEP),
    Goal("exponent of time in D, native", 1.1, 1.0, "", _exponent("native")),
    Goal("exponent of time in D, portable", 1.1, 1.0, "", _exponent("portable")),
    Goal("extra memory, native", 6.0, 3.0, "x y", _layer("memory", engine="native")),
    Goal("extra memory, portable", 6.0, 3.0, "x y", _layer("memory", engine="portable")),
    Goal("first call, empty cache", 40.0, None, "s", _start("cold")),
    Goal("first call, cached", 1.0, None, "s", _start("cached")),
    Goal("slowed by another process on each core", 3.0, 2.0, "x", _SLOWED),
    Goal("error of z in the layers (float32)", 1e-5, None, "", _layer("error")),
    Goal("error of z on the accuracy grid (float32)", 1e-5, None, "", _GRID),
)
