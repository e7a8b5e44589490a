"""Every sigma on one layer: none of them costs more than O(D) under uniform coupling."""

from __future__ import annotations

from typing import Any

from ibnn import sigma
from ibnn.lab.bench.layers import time_layer
from ibnn.lab.bench.problems import SHAPES, choose
from ibnn.lab.bench.settings import BenchSettings

SHAPE = SHAPES[1]
CONDITIONS = ((-0.2, 0.1), (0.08, 0.1), (-0.2, 1.0))


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    return [
        {"sigma": name, **row}
        for name in sorted(sigma.names(), key="tanh".__ne__)
        for lam, std in choose(CONDITIONS, settings.quick, 1)
        for row in time_layer(settings, SHAPE, lam, std, name)
    ]
