"""Rows made to break an engine: ten distributions, and settings from harmless to absurd.

Each is drawn by its seed and number alone, so that any slice can be drawn by itself.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tests import oracle

SIZES = (2, 2048)
SLOPES = (0.01, 1000.0)
LAMS = (1e-3, 5.0)  # of -lam; above 0 it is a share of the threshold, 0.999 at most


def _crowd(rng: np.random.Generator, units: int) -> np.ndarray:
    """Nearly all units in one place, the others around it."""
    return np.where(rng.random(units) < 0.95, 1e-3, 1.0) * rng.standard_normal(units)


def _outlier(rng: np.random.Generator, units: int) -> np.ndarray:
    y = rng.standard_normal(units)
    y[rng.integers(units)] = 10 ** rng.uniform(1, 5)
    return y


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "student t(2)": lambda rng, n: rng.standard_t(2, n),
    "lognormal": lambda rng, n: np.exp(1.5 * rng.standard_normal(n)) - 1,
    "two crowds": lambda rng, n: 0.05 * rng.standard_normal(n) + np.sign(rng.random(n) - 0.3),
    "ties": lambda rng, n: np.round(2 * rng.standard_normal(n)) / 2,
    "half zeros": lambda rng, n: np.maximum(0, rng.standard_normal(n)),
    "crowd": _crowd,
    "outlier": _outlier,
}


@dataclass(frozen=True, eq=False)
class Case:
    """One row with everything it is solved with; all numbers are those of its dtype."""

    number: int
    kind: str
    y: np.ndarray
    g: np.ndarray
    lam: float
    slope: float
    sigma: str
    precision: str
    coupling: str = "uniform"

    @cached_property
    def weights(self) -> np.ndarray | None:
        units = len(self.y)
        if self.coupling == "window":
            return oracle.window_weights((units,), 5)
        if self.coupling == "dense":
            loose = np.random.default_rng(units).random((units, units)) / units
            return ((loose + loose.T) / 2).astype(np.float32).astype(np.float64)
        return None

    @property
    def ordinary(self) -> bool:
        """Where accuracy is promised: within this, a row must be solved and not only reported."""
        return bool(
            -2 <= self.lam <= 0.95 * oracle.threshold(self.slope, self.weights)
            and 1 <= self.slope <= 100
            and 1e-3 <= np.std(self.y) <= 10
            and 1e-3 <= np.abs(self.g).max() <= 1e3
        )

    def __str__(self) -> str:
        return (
            f"case {self.number}: {self.kind}, D={len(self.y)}, std {np.std(self.y):.3g}, "
            f"largest {np.abs(self.y).max():.3g}, lam {self.lam:.6g} (c {self.lam * self.slope:.6g}"
            f"), slope {self.slope:.4g}, g {np.abs(self.g).max():.2g}, {self.sigma}, "
            f"{self.coupling}, {self.precision}"
        )


def cases(
    seed: int, first: int, count: int, sizes: tuple[int, int] = SIZES, uniform_only: bool = False
) -> Iterator[Case]:
    """Cases `first` to `first + count - 1` of a seed."""
    for number in range(first, first + count):
        yield _case(number, np.random.default_rng((seed, number)), sizes, uniform_only)


def _case(
    number: int, rng: np.random.Generator, sizes: tuple[int, int], uniform_only: bool
) -> Case:
    kind = list(DISTRIBUTIONS)[number % len(DISTRIBUTIONS)]
    coupling = (
        "uniform"
        if uniform_only
        else rng.choice(["uniform", "window", "dense"], p=[0.9, 0.05, 0.05])
    )
    most = sizes[1] if coupling == "uniform" else min(96, sizes[1])
    units = round(10 ** rng.uniform(math.log10(sizes[0]), math.log10(most)))
    precision = str(rng.choice(["float32", "float64"], p=[0.7, 0.3]))
    number_of = np.float32 if precision == "float32" else np.float64
    slope = float(number_of(10 ** rng.uniform(*np.log10(SLOPES))))

    size = rng.choice(["usual", "tiny", "huge", "in units of sigma"], p=[0.55, 0.1, 0.1, 0.25])
    scale = {
        "usual": 10 ** rng.uniform(-3, 1),
        "tiny": 10 ** rng.uniform(-36, -3),
        "huge": 10 ** rng.uniform(1, 12),
        "in units of sigma": 10 ** rng.uniform(-2, 1.5) / slope,
    }[str(size)]
    y = scale * DISTRIBUTIONS[kind](rng, units)
    if rng.random() < 0.15:
        y = y + rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 3) * min(scale, 1e3)
    y = y.astype(number_of).astype(np.float64)

    g = rng.standard_normal(units) if rng.random() < 0.7 else rng.standard_cauchy(units)
    if rng.random() < 0.2:
        g[rng.random(units) < 0.9] = 0
    g *= 10 ** rng.uniform(-30, 25) if rng.random() < 0.3 else 1.0
    g = g.astype(number_of).astype(np.float64)

    case = Case(
        number,
        kind,
        y,
        g,
        0.0,
        slope,
        str(rng.choice(list(oracle.SIGMAS), p=[0.7, 0.1, 0.1, 0.1])),
        precision,
        str(coupling),
    )
    if rng.random() < 0.5:
        lam = -(10 ** rng.uniform(*np.log10(LAMS)))
    else:
        share = rng.uniform(0, 0.95) if rng.random() < 0.6 else 1 - 10 ** rng.uniform(-3, -1)
        lam = share * oracle.threshold(slope, case.weights)
    return replace(case, lam=float(number_of(lam)))
