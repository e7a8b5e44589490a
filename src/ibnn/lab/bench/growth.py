"""How time grows with the number of units D that talk to each other."""

import math
from collections.abc import Sequence
from statistics import linear_regression
from typing import Any

import torch
from torch import Tensor

import ibnn
from ibnn.lab.bench import engines
from ibnn.lab.bench.settings import BenchSettings
from ibnn.lab.bench.timing import interleave

LAM, STD = -0.2, 0.3
# The same number of units at every D, in at least four rows: as many threads are busy at the
# largest D as at the smallest, and the cost of the call itself is spread over as many units.
TOTAL = 4_000_000
SIZES = tuple(round(10 ** (half / 2)) for half in range(4, 13))
FITTED = (1e3, 1e6)


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    """Forward and backward of F alone; `seconds` is the time of one row, `single` with one row."""
    total = TOTAL // 10 if settings.quick else TOTAL
    largest = 1e5 if settings.quick else 1e6
    rows = []
    for units in (size for size in SIZES if size <= largest):
        whole, single = _inputs(max(4, total // units), units), _inputs(1, units)
        candidates = {}
        for engine in settings.engines:
            candidates[f"{engine} whole"] = engines.by(engine, _both, *whole)
            candidates[f"{engine} single"] = engines.by(engine, _both, *single)
        times = interleave(candidates, (3, settings.rounds[1]), settings.seconds)
        rows += [
            {
                "units": units,
                "engine": engine,
                "ns_per_unit": 1e9 * times[f"{engine} whole"].median / len(whole[0]) / units,
                "seconds": times[f"{engine} whole"].median / len(whole[0]),
                "rows": len(whole[0]),
                "single_row_seconds": times[f"{engine} single"].median,
            }
            for engine in settings.engines
        ]
    return rows


def exponent(units: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log(seconds) against log(units): 1 is linear, 2 is every pair.

    >>> exponent([10, 100, 1000], [3.0, 30.0, 300.0])
    1.0
    """
    if len(set(units)) < 2 or len(units) != len(seconds):
        raise ValueError(f"expected a time for each of two or more sizes, got {units}, {seconds}")
    return round(linear_regression(*([math.log(v) for v in s] for s in (units, seconds))).slope, 6)


def fitted(rows: Sequence[dict[str, Any]], engine: str) -> float | None:
    """The exponent of an engine over 10^3..10^6, or as far as was measured."""
    points = [
        (row["units"], row["seconds"])
        for row in rows
        if row["engine"] == engine and FITTED[0] <= row["units"] <= FITTED[1]
    ]
    if len(points) < 2:
        return None
    return exponent([units for units, _ in points], [seconds for _, seconds in points])


def _inputs(rows: int, units: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(units)
    y = STD * torch.randn((rows, units), generator=generator)
    return y.requires_grad_(), torch.randn((rows, units), generator=generator)


def _both(y: Tensor, g: Tensor) -> None:
    y.grad = None
    ibnn.implicit_bias(y, LAM, on_failure="ignore").backward(g)
