"""Errors against the dense float64 solve, over a grid of lam, slope and spread."""

from typing import Any

import torch

import ibnn
from ibnn.lab.bench.problems import References
from ibnn.lab.bench.settings import BenchSettings

UNITS = 784
# Where training passes (fractions of the threshold), then the rest of what is promised.
TRAINING_STDS, FRACTIONS = (0.003, 0.01, 0.03, 0.05), (0.8, 0.95)
OTHER_STDS, OTHER_LAMS = (0.001, 0.01, 0.1, 1.0, 10.0), (-2.0, -1.0, -0.2, 0.03, 0.08)
SLOPES = (10.0, 100.0)


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    rows = []
    for part, lam, slope, std in grid(settings.quick):
        generator = torch.Generator().manual_seed(0)
        y = std * torch.randn((2, UNITS), generator=generator)
        references = References(y, lam, len(y), slope)
        rows += [
            {
                "part": part,
                "lam": lam,
                "lam_fraction": lam / float(ibnn.uniqueness_threshold(slope)),
                "slope": slope,
                "std": std,
                "engine": engine,
                **references.judge(engine),
            }
            for engine in settings.engines
        ]
    return rows


def grid(quick: bool) -> list[tuple[str, float, float, float]]:
    """Part of the grid, lam, slope, std."""
    threshold = float(ibnn.uniqueness_threshold(SLOPES[0]))
    cases = [
        ("training", fraction * threshold, SLOPES[0], std)
        for fraction in FRACTIONS
        for std in TRAINING_STDS
    ]
    if quick:
        return cases
    for slope in SLOPES:
        threshold = float(ibnn.uniqueness_threshold(slope))
        lams = sorted({*OTHER_LAMS, *(fraction * threshold for fraction in FRACTIONS)})
        cases += [
            ("grid", lam, slope, std) for lam in lams if lam < threshold for std in OTHER_STDS
        ]
    return cases
