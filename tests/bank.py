"""The bank: problems with known answers that every solver, coupling and sigma is put through.

    limits()    closed forms, each with the distance its derivation allows
    grid()      lam x slope x D x kind of row, uniform coupling, answers by the oracle
    coupled()   coupling x sigma x lam on 24 units, answers by the oracle
    stored()    a dozen rows of 784 and 5000 units, answers of the oracle kept in a file

Problems are plain float64 numpy data. Every number in them is a float32 number too, so that one
answer serves both precisions. `batches()` joins problems that differ in y only, to be solved in
one call.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq, isotonic_regression

from tests import oracle

STORED_ANSWERS = Path(__file__).parent / "data" / "stored_answers.npz"

SLOPES = (1.0, 10.0, 100.0)
NEGATIVE_LAMS = (-2.0, -1.0, -0.5, -0.2, -0.05)
SHARES_OF_THRESHOLD = (0.3, 0.8, 0.95)
STDS = (0.001, 0.01, 0.03, 0.1, 1.0, 10.0)
SIZES = (1, 2, 3, 200)


@dataclass(frozen=True, eq=False)
class Coupling:
    """Who listens to whom, as plain data: kind is "uniform", "window" or "dense"."""

    kind: str = "uniform"
    shape: tuple[int, ...] = ()  # of the map, for a window
    kernel_size: tuple[int, ...] = ()
    profile: str = "box"
    std: float | None = None
    weight: np.ndarray | None = None  # for dense

    @cached_property
    def weights(self) -> np.ndarray | None:
        """The D x D array the oracle takes; None is its word for uniform."""
        if self.kind == "window":
            return oracle.window_weights(self.shape, self.kernel_size, self.profile, self.std)
        return self.weight

    def threshold(self, slope: float) -> float:
        return oracle.threshold(slope, self.weights)

    def __str__(self) -> str:
        if self.kind == "window":
            return f"window {self.profile} {'x'.join(map(str, self.kernel_size))}"
        if self.weight is not None:
            return f"dense with row sums up to {self.weight.sum(axis=1).max():.3g}"
        return self.kind


UNIFORM = Coupling()


@dataclass(frozen=True, eq=False)
class Problem:
    """One row y, its settings and its solution."""

    name: str
    y: np.ndarray
    lam: float
    slope: float
    sigma: str = "tanh"
    coupling: Coupling = UNIFORM
    known: np.ndarray | None = field(default=None, repr=False)  # None: ask the oracle
    source: str = "oracle"
    tolerance: float = 0.0  # how far `known` may be from the exact solution

    @cached_property
    def expected(self) -> np.ndarray:
        if self.known is not None:
            return self.known
        return oracle.solve_row(self.y, self.lam, self.slope, self.coupling.weights, self.sigma)

    def gradient(self, g: np.ndarray) -> tuple[np.ndarray, float, float]:
        """The oracle's (dL/dy, dL/dlam, dL/dslope) of L = g . z."""
        settings = (self.coupling.weights, self.sigma)
        return oracle.gradient_row(self.y, self.lam, self.slope, g, *settings)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Batch:
    """Problems that differ in y only; `y`, `expected` are (rows, D), `tolerance` is (rows, 1)."""

    problems: tuple[Problem, ...]

    @property
    def lam(self) -> float:
        return self.problems[0].lam

    @property
    def slope(self) -> float:
        return self.problems[0].slope

    @property
    def sigma(self) -> str:
        return self.problems[0].sigma

    @property
    def coupling(self) -> Coupling:
        return self.problems[0].coupling

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row for the library: that of the map for a window, else (D,)."""
        return self.coupling.shape or self.problems[0].y.shape

    @cached_property
    def y(self) -> np.ndarray:
        return np.stack([problem.y for problem in self.problems])

    @cached_property
    def expected(self) -> np.ndarray:
        return np.stack([problem.expected for problem in self.problems])

    @property
    def tolerance(self) -> np.ndarray:
        return np.array([[problem.tolerance] for problem in self.problems])

    def __str__(self) -> str:
        settings = f"D={self.y.shape[1]} slope={self.slope:g} lam={self.lam:.4g}"
        return f"{self.coupling} {self.sigma} {settings}"


def batches(problems: Iterable[Problem]) -> list[Batch]:
    groups: dict[tuple, list[Problem]] = {}
    for problem in problems:
        key = (problem.coupling, problem.sigma, len(problem.y), problem.slope, problem.lam)
        groups.setdefault(key, []).append(problem)
    return [Batch(tuple(group)) for group in groups.values()]


# What the library promises: error of z against the exact solution, relative error of gradients.
ERROR_OF_Z = {torch.float32: 1e-5, torch.float64: 1e-10}
ERROR_OF_GRADIENT = {torch.float32: 1e-4, torch.float64: 1e-8}


def allowed_error(y: np.ndarray, precision: str) -> np.ndarray:
    """The accuracy the library promises for every unit, by name of the dtype."""
    if precision == "float64":
        return np.full_like(y, ERROR_OF_Z[torch.float64])
    return ERROR_OF_Z[torch.float32] * np.maximum(1, np.abs(y))


def exact(x) -> Any:
    """x rounded to float32, as float64: the same number in both precisions."""
    rounded = np.float64(np.float32(x))
    return float(rounded) if np.ndim(x) == 0 else rounded


def lams(slope: float, coupling: Coupling = UNIFORM) -> list[float]:
    """The nine lam of the grid: contraction, identity, and shares of the threshold."""
    positive = [share * coupling.threshold(slope) for share in SHARES_OF_THRESHOLD]
    return [exact(lam) for lam in (*NEGATIVE_LAMS, 0.0, *positive)]


def rows(units: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One row of every kind met in practice or feared."""
    noise = rng.standard_normal
    drawn = {f"normal std {std:g}": std * noise(units) for std in STDS}
    drawn["ties"] = np.round(2 * noise(units)) / 4
    drawn["constant"] = np.full(units, 0.7)
    drawn["one unit at 1e4"] = 0.1 * noise(units)
    drawn["one unit at 1e4"][units // 2] = 1e4
    drawn["skewed"] = np.exp(1.5 * noise(units)) - 1
    drawn["bimodal"] = 0.1 * noise(units) + np.where(rng.random(units) < 0.3, -1.0, 1.0)
    return {kind: exact(y) for kind, y in drawn.items()}


@cache
def grid(sigma: str = "tanh", sizes: tuple[int, ...] = SIZES) -> list[Problem]:
    """Every lam x slope x D x kind of row, with uniform coupling: the default solver's exam."""
    rng = np.random.default_rng(2)
    problems = []
    for units in sizes:
        drawn = rows(units, rng)
        for slope in SLOPES:
            for lam in lams(slope):
                for kind, y in drawn.items():
                    name = f"{sigma} D={units} slope={slope:g} lam={lam:.4g} {kind}"
                    problems.append(Problem(name, y, lam, slope, sigma))
    return problems


@cache
def couplings() -> list[Coupling]:
    """One coupling of every kind on 24 units."""
    rng = np.random.default_rng(3)
    ring = (np.eye(24, k=1) + np.eye(24, k=-1) + np.eye(24, k=23) + np.eye(24, k=-23)) / 2
    loose = rng.random((24, 24)) * (rng.random((24, 24)) < 0.3)
    loose = exact(loose + loose.T)
    loose[5, :] = loose[:, 5] = 0.0  # a unit that listens to nobody
    return [
        UNIFORM,
        Coupling("window", shape=(24,), kernel_size=(5,)),
        Coupling("window", shape=(4, 6), kernel_size=(3, 5), profile="gaussian", std=0.75),
        Coupling("window", shape=(2, 3, 4), kernel_size=(3, 3, 3)),
        Coupling("dense", weight=ring),
        Coupling("dense", weight=loose),
    ]


@cache
def coupled() -> list[Problem]:
    """Every coupling x sigma, pulled together, hardly touched and pushed apart; slope 10."""
    rng = np.random.default_rng(4)
    slope = 10.0
    drawn = {f"std {std:g}": exact(std * rng.standard_normal(24)) for std in (0.03, 0.3, 3.0)}
    drawn["ties"] = exact(np.round(2 * rng.standard_normal(24)) / 4)
    problems = []
    for coupling in couplings():
        for sigma in oracle.SIGMAS:
            for lam in (-1.0, exact(-0.05), exact(0.8 * coupling.threshold(slope))):
                for kind, y in drawn.items():
                    name = f"{coupling} {sigma} lam={lam:.4g} {kind}"
                    problems.append(Problem(name, y, lam, slope, sigma, coupling))
    return problems


@cache
def stored() -> list[Problem]:
    """The dozen of data/make_stored_answers.py."""
    with np.load(STORED_ANSWERS) as file:
        return [
            Problem(
                name=str(name),
                y=file[f"y{k}"].astype(np.float64),
                lam=float(file["lam"][k]),
                slope=float(file["slope"][k]),
                known=file[f"z{k}"],
                source="the oracle's answer, stored",
            )
            for k, name in enumerate(file["name"])
        ]


@cache
def limits() -> list[Problem]:
    """Problems whose solution is known without solving anything in many unknowns."""
    rng = np.random.default_rng(5)
    return [
        *_nothing_to_solve(rng),
        *_linear_regime(rng),
        *_two_units(),
        *_two_distant_clumps(),
        isotonic(slope=100.0),
        isotonic(slope=1000.0),
    ]


def _nothing_to_solve(rng):
    for coupling in couplings():
        y = exact(rng.standard_normal(24))
        source = "lam = 0: z = y"
        yield Problem(f"identity, {coupling}", y, 0.0, 10.0, "tanh", coupling, y, source)
    for sigma in oracle.SIGMAS:
        for lam in (-2.0, exact(0.095)):
            about = f"{sigma} lam={lam:.4g}"
            one, equal = np.array([exact(1.3)]), np.full(24, exact(-0.7))
            source = "one unit: sigma(0) = 0"
            yield Problem(f"one unit, {about}", one, lam, 10.0, sigma, UNIFORM, one, source)
            for coupling in couplings():
                name, source = f"all equal, {coupling} {about}", "all equal: sigma(0) = 0"
                lam_below = min(lam, exact(0.95 * coupling.threshold(10.0)))
                yield Problem(name, equal, lam_below, 10.0, sigma, coupling, equal, source)
    y = exact(rng.standard_normal(24))
    alone = Coupling("dense", weight=np.eye(24))
    source = "everyone listens to himself only: z = y"
    yield Problem("identity weights", y, -1.0, 10.0, "tanh", alone, y, source)


def _linear_regime(rng):
    """slope * |z_k - z_i| small: z - mean = (y - mean) / (1 - lam slope).

    |s(x) - x| <= |x|^3 for every s of the bank (hardtanh: 0), so the linear answer, of range R,
    leaves a residual of at most |lam| (slope R)^3 in every unit, sqrt(D) times that in l2. J^-1
    carries it into z: its l2 norm is at most 1 / (1 - lam slope) for lam > 0, and 1 for lam < 0.
    The scale of y balances this against the change z - y, which float32 must be able to see.
    """
    units, slope = 50, 1.0
    for sigma in oracle.SIGMAS:
        for lam in (-2.0, exact(-0.2), exact(0.3), exact(0.8), exact(0.95)):
            stiffness = min(1.0, 1 - lam * slope)
            y = exact(1e-3 * stiffness**1.5 * rng.standard_normal(units))
            z = y.mean() + (y - y.mean()) / (1 - lam * slope)
            cubic = 0.0 if sigma == "hardtanh" else abs(lam) * (slope * np.ptp(z)) ** 3
            tolerance = 1e-15 + math.sqrt(units) / stiffness * cubic
            name, source = (
                f"linear regime, {sigma} lam={lam:.4g}",
                "z - mean = (y - mean)/(1 - lam p)",
            )
            yield Problem(name, y, lam, slope, sigma, UNIFORM, z, source, tolerance)


def _two_units():
    """D = 2: the mean is kept and the gap d solves d - lam sigma(d) = y_2 - y_1."""
    slope = 10.0
    for sigma in oracle.SIGMAS:
        value, _, _ = oracle.SIGMAS[sigma]
        for lam in (-2.0, exact(-0.2), exact(0.08)):
            for gap in (0.01, 0.3, 5.0):
                y = exact(np.array([0.2, 0.2 + gap]))
                target, reach = y[1] - y[0], 1 + abs(lam)

                def equation(d, lam=lam, target=target, value=value):
                    return d - lam * value(slope * d) - target

                d = brentq(equation, target - reach, target + reach, xtol=1e-15)
                z = y.mean() + np.array([-0.5, 0.5]) * d
                # brentq stops within 1e-15 + 4 eps d, d below 6.
                name, source = f"two units, {sigma} lam={lam:.4g} gap={gap:g}", "scalar equation"
                yield Problem(name, y, lam, slope, sigma, UNIFORM, z, source, tolerance=1e-14)


def _two_distant_clumps():
    """m units at 0 and D - m units farther off than sigma can tell: sigma = +-1 between them."""
    slope, units, low = 10.0, 24, 9
    y = np.where(np.arange(units) % 8 < 3, 0.0, 4.0)
    assert (y == 0).sum() == low
    for sigma in ("tanh", "hardtanh", "erf"):  # arctan never gets there
        for lam in (-1.0, exact(-0.2), exact(0.095)):
            # lam < 0 brings the clumps closer, by |lam| <= 1: 1 - tanh(10 * 3) < 1e-25.
            z = y + lam * np.where(y == 0, -(units - low), low) / units
            name, source = f"two distant clumps, {sigma} lam={lam:.4g}", "z = y -+ lam * others / D"
            yield Problem(name, y, lam, slope, sigma, UNIFORM, z, source, tolerance=1e-15)


def isotonic(slope: float, lam: float = -0.5) -> Problem:
    """The limit slope -> infinity, lam < 0: isotonic(y - |lam| (2i - D - 1)/D), y sorted, i = 1..D.

    Units of one block of the regression end up at one place c, spread over O(1/slope). How far:
    cut a block of m sorted units after its a-th one. The lower a are lifted from y to at most c
    by the pull of the upper m - a (and of the other blocks, which is saturated), so the mean of
    sigma over the a (m - a) pairs across the cut is at most rho_a, known from y alone; the closest
    pair has the smallest sigma, so this gap is at most atanh(rho_a) / slope. The block keeps its
    mean: nobody in it is farther from c than the sum of its gaps.
    """
    y = exact(np.array([-1.9, -1.85, -1.8, -0.5, -0.45, -0.42, -0.4, -0.36, 0.9, 1.7, 1.72, 3.0]))
    units = len(y)
    rank = np.arange(1, units + 1)
    regression = isotonic_regression(y - abs(lam) * (2 * rank - units - 1) / units)

    tolerance = 0.0
    for first, last in zip(regression.blocks[:-1], regression.blocks[1:], strict=True):
        if last < units:  # the blocks see each other saturated: 1 - tanh(20) = 1e-17
            assert slope * (regression.x[last] - regression.x[first]) > 20
        size = last - first
        pull_of_others = abs(lam) * (units - first - last) / units
        lift = np.cumsum(regression.x[first] - y[first:last] - pull_of_others)[:-1]
        below = np.arange(1, size)
        rho = lift * units / (abs(lam) * below * (size - below))
        tolerance = max(tolerance, np.arctanh(rho).sum() / slope)

    shuffled = np.random.default_rng(6).permutation(units)
    return Problem(
        name=f"isotonic limit, slope={slope:g}",
        y=y[shuffled],
        lam=lam,
        slope=slope,
        known=regression.x[shuffled],
        source="isotonic regression, up to O(1/slope)",
        tolerance=tolerance,
    )
