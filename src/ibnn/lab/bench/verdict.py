"""The numbers that were set as a goal, beside the measured ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ibnn.lab.bench import growth

Rows = Sequence[dict[str, Any]]
Results = Mapping[str, Rows]
# The measured number and where it was measured; None where it was not.
Measured = tuple[float, str] | None


@dataclass(frozen=True)
class Target:
    """A number that must not exceed `required`, and better not `aim`."""

    name: str
    required: float
    aim: float | None
    unit: str
    measured: Callable[[Results], Measured]


@dataclass(frozen=True)
class Verdict:
    name: str
    required: float
    aim: float | None
    unit: str
    measured: float | None
    where: str
    state: str


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


def verdicts(results: Results) -> list[Verdict]:
    found = []
    for target in TARGETS:
        answer = target.measured(results)
        value, where = answer if answer is not None else (None, "")
        state = judge(value, target.required, target.aim)
        kept = value if value is None or math.isfinite(value) else None
        found.append(
            Verdict(target.name, target.required, target.aim, target.unit, kept, where, state)
        )
    return found


def as_rows(found: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [asdict(verdict) for verdict in found]


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


def _layer(column: str, **fixed: Any) -> Callable[[Results], Measured]:
    where = ("shape", "lam", "std")
    return lambda results: worst(results.get("layers", ()), column, where, **fixed)


def _training(engine: str) -> Callable[[Results], Measured]:
    where = ("network", "lam")
    return lambda results: worst(results.get("training", ()), "ratio", where, engine=engine)


def _exponent(engine: str) -> Callable[[Results], Measured]:
    def measured(results: Results) -> Measured:
        rows = [row for row in results.get("growth", ()) if row["engine"] == engine]
        value = growth.fitted(rows, engine)
        if value is None:
            return None
        return value, f"D up to {max(row['units'] for row in rows):,}"

    return measured


def _start(start: str) -> Callable[[Results], Measured]:
    fixed = {"engine": "native", "start": start}
    return lambda results: worst(results.get("startup", ()), "seconds", ("start",), **fixed)


def _accuracy(results: Results) -> Measured:
    where = ("engine", "lam", "slope", "std")
    return worst(results.get("accuracy", ()), "error", where)


def _layer_targets(engine: str, required: float, aim: float) -> list[Target]:
    fixed = {"engine": engine, "hard": False}
    name = f"layer forward+backward / Conv2d+ReLU, {engine}"
    return [Target(name, required, aim, "x", _layer("ratio_both", **fixed))]


def _slowed(results: Results) -> Measured:
    return worst(results.get("busy", ()), "slowed", ("case",))


_HARD = {"engine": "native", "hard": True}

TARGETS = (
    *_layer_targets("native", 3.0, 1.5),
    *_layer_targets("portable", 8.0, 4.0),
    Target("lam = -1, std 0.3 (hard), native", 6.0, 3.0, "x", _layer("ratio_both", **_HARD)),
    Target("training step / standard network's, native", 2.0, 1.3, "x", _training("native")),
    Target("exponent of time in D, native", 1.1, 1.0, "", _exponent("native")),
    Target("exponent of time in D, portable", 1.1, 1.0, "", _exponent("portable")),
    Target("extra memory, native", 6.0, 3.0, "x y", _layer("memory", engine="native")),
    Target("extra memory, portable", 6.0, 3.0, "x y", _layer("memory", engine="portable")),
    Target("first call, empty cache", 40.0, None, "s", _start("cold")),
    Target("first call, cached", 1.0, None, "s", _start("cached")),
    Target("slowed by another process on each core", 3.0, 2.0, "x", _slowed),
    Target("error of z in the layers (float32)", 1e-5, None, "", _layer("error")),
    Target("error of z on the accuracy grid (float32)", 1e-5, None, "", _accuracy),
)
