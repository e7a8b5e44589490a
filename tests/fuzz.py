"""Rows made to break an engine, each judged by the oracle: an answer is right, or was reported.

    python -m tests.fuzz --engine native --rows 10000 --seed 1

draws rows from ten distributions (heavy tails, ties, crowds, tiny and huge scales), lam from -5 to
0.999 of the threshold, slopes from 0.01 to 1000 and gradients of any size; solves each alone, as a
user would; and counts the silent failures: errors of z, dL/dy, dL/dlam or dL/dslope above what is
promised (DESIGN section 5) that no warning told of. `tests/test_fuzz.py` runs a slice of it. The
Triton engine runs on the CPU with TRITON_INTERPRET=1 in the environment.
"""

import argparse
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

import ibnn
from ibnn import ConvergenceWarning
from ibnn.engine import EngineError
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
    """Cases `first` to `first + count` of a seed: any slice of them can be drawn by itself."""
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


@dataclass
class Answer:
    """What the library says of one row."""

    z: np.ndarray
    dy: np.ndarray
    dlam: float
    dslope: float
    steps: int
    seconds: float
    told: list[str] = field(default_factory=list)  # warnings, in order

    @property
    def told_forward(self) -> bool:
        return any("backward" not in message for message in self.told)


def _coupling(case: Case) -> ibnn.Coupling:
    if case.coupling == "window":
        return ibnn.Window(5)
    if case.coupling == "dense":
        return ibnn.Dense(torch.from_numpy(case.weights))
    return ibnn.Uniform(-1)


def ask(case: Case, engine: str) -> Answer:
    """The library's answer, by its public functions."""
    dtype = getattr(torch, case.precision)
    y = torch.tensor(case.y, dtype=dtype, requires_grad=True)
    lam, slope = (torch.tensor(x, dtype=dtype, requires_grad=True) for x in (case.lam, case.slope))
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        found = ibnn.solve(y, lam, slope, coupling=_coupling(case), sigma=case.sigma, engine=engine)
        g = torch.tensor(case.g, dtype=dtype)
        dy, dlam, dslope = torch.autograd.grad(found.value, (y, lam, slope), g)
    return Answer(
        found.value.detach().double().numpy(),
        dy.double().numpy(),
        dlam.item(),
        dslope.item(),
        int(found.steps),
        time.process_time() - began,
        # not those of numpy, which Triton's interpreter is full of
        [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)],
    )


def judge(case: Case, answer: Answer) -> list[str]:
    """What is wrong with the answer and was not reported: nothing, or one line for each."""
    if answer.told_forward:
        return []
    settings = (case.lam, case.slope, case.weights, case.sigma)
    eps = float(np.finfo(case.precision).eps)
    start = answer.z if np.isfinite(answer.z).all() else None
    z = oracle.solve_row(case.y, *settings, start=start)
    wrong = [*_wrong_z(case, answer, z, eps)]
    if answer.told or (case.sigma == "hardtanh" and _on_a_kink(case, z, eps)):
        return wrong
    if not np.isfinite(answer.dy).all():
        return [*wrong, "dy is not finite"]
    complaints = _wrong_gradient(case, answer, z, settings)
    if complaints and not wrong:
        # what keeps z, and slope * z, in this precision can differentiate nowhere but near it
        ulp = 3 * eps * case.slope * np.maximum(np.abs(z), np.abs(case.y))
        kept = (answer.z * case.slope).astype(case.precision).astype(np.float64)
        near = case.slope * z + np.clip(kept - case.slope * z, -ulp, ulp)
        complaints = _wrong_gradient(case, answer, near / case.slope, settings, near)
    return wrong + complaints


def _wrong_z(case: Case, answer: Answer, z: np.ndarray, eps: float) -> Iterator[str]:
    error, size = np.abs(answer.z - z), np.abs(case.y)
    allowed = (1e-5 if case.precision == "float32" else 1e-10) * np.maximum(1, size)
    allowed += 4 * oracle.EPS * size.max()  # what the oracle itself makes of far units
    if not (error <= allowed).all():
        yield f"z is off by {np.max(error / allowed):.3g} of what is allowed"
    # gradients are made of differences: rows narrower than 1 are resolved too
    share = 1e-4 if case.precision == "float32" else 1e-8
    resolved = share * np.ptp(z) + 8 * eps * (size.max() + np.abs(z).max())
    if not (error <= np.maximum(resolved, 0)).all() and np.ptp(z) * share < allowed.min():
        yield f"z is off by {np.max(error) / np.ptp(z):.3g} of its range"


def _wrong_gradient(
    case: Case, answer: Answer, z: np.ndarray, settings: tuple, scaled: np.ndarray | None = None
) -> list[str]:
    """`scaled` is slope * z where that is known to the last digit, which z then is not."""
    lam, slope, weights, sigma = settings
    if scaled is None:
        v, dlam, dslope = oracle.gradient_row(case.y, lam, slope, case.g, weights, sigma, z=z)
    else:  # in units where the slope is 1, in which dB/dslope has a factor slope
        one = (lam * slope, 1.0, case.g, weights, sigma)
        v, dlam, dslope = oracle.gradient_row(None, *one, z=scaled)
        dslope /= slope**2
    share = 1e-8 if case.precision == "float64" else 1e-4
    if case.precision == "float32" and slope * np.std(case.y) > 100:
        share = 1e-3
    size = np.linalg.norm(v)
    bias = np.linalg.norm(oracle.bias_row(z, slope, weights, sigma))
    # dB/dslope is made of x s'(x) / slope, up to 0.45 / slope, and computed as a difference of
    # terms of size |z|, which have the digits of a double at most
    by_slope = np.linalg.norm(oracle.bias_by_slope_row(z, slope, weights, sigma))
    narrow = min(0.1, slope * np.ptp(z)) / slope * math.sqrt(len(z))
    rounding = 8 * oracle.EPS / share * np.linalg.norm(z - np.median(z))
    by_slope = abs(lam) * (max(by_slope, narrow) + rounding)
    wrong = []
    # numbers below the smallest normal one have fewer digits
    floor = float(np.finfo(case.precision).tiny)
    for name, error, allowed in (
        ("dy", np.linalg.norm(answer.dy - v), share * size),
        ("dlam", abs(answer.dlam - dlam), share * size * bias),
        ("dslope", abs(answer.dslope - dslope), share * size * by_slope),
    ):
        if not error <= allowed + len(z) * floor:
            wrong.append(f"{name} is off by {error / max(allowed, floor):.3g} of what is allowed")
    return wrong


def _on_a_kink(case: Case, z: np.ndarray, eps: float) -> bool:
    """Whether rounding decides on which side of a kink of hardtanh some pair is."""
    apart = np.abs(case.slope * (z[None, :] - z[:, None]))
    return bool(
        (
            np.abs(apart - 1)
            <= 1e-3 * case.slope * 1e-2 + 1e-5 + 16 * eps * case.slope * np.abs(z).max()
        ).any()
    )


@dataclass
class Tally:
    rows: int = 0
    declined: int = 0  # by the engine, which says why
    silent: list[str] = field(default_factory=list)
    reported: Counter = field(default_factory=Counter)
    alarms: list[str] = field(default_factory=list)  # reported where accuracy is promised
    most_steps: int = 0
    slowest: tuple[float, str] = (0.0, "")

    def take(self, case: Case, answer: Answer, wrong: list[str]) -> None:
        self.rows += 1
        if wrong:
            self.silent.append(f"{case}: {', '.join(wrong)} [{answer.seconds:.2f} s]")
        for message in answer.told:
            self.reported["backward" if "backward" in message else "forward"] += 1
            if case.ordinary:
                self.alarms.append(f"{case}: {message}")
        self.most_steps = max(self.most_steps, answer.steps)
        self.slowest = max(self.slowest, (answer.seconds, str(case)))

    def __str__(self) -> str:
        declined = f" ({self.declined} more declined)" if self.declined else ""
        return (
            f"{self.rows} rows{declined}: {len(self.silent)} silent failures, "
            f"{self.reported['forward']} reported forward and {self.reported['backward']} backward "
            f"({len(self.alarms)} of them where accuracy is promised), at most {self.most_steps} "
            f"steps, slowest {self.slowest[0]:.2f} s"
        )


def run(
    engine: str,
    rows: int,
    seed: int,
    first: int = 0,
    sizes: tuple[int, int] = SIZES,
    uniform_only: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Tally:
    tally = Tally()
    for case in cases(seed, first, rows, sizes, uniform_only):
        try:
            answer = ask(case, engine)
        except EngineError:
            tally.declined += 1
            continue
        before = len(tally.silent), len(tally.alarms)
        tally.take(case, answer, judge(case, answer))
        for line in (*tally.silent[before[0] :], *tally.alarms[before[1] :]):
            say(line)
        if tally.rows % 500 == 0:
            say(f"{engine}, seed {seed}: {tally}")
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="native")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=SIZES[1], help="units of the longest row")
    chosen = parser.parse_args()
    tally = run(
        chosen.engine,
        chosen.rows,
        chosen.seed,
        chosen.first,
        (SIZES[0], chosen.most),
        say=lambda line: print(line, flush=True),
    )
    print(f"{chosen.engine}, seed {chosen.seed}, from row {chosen.first}: {tally}")
    print(f"slowest: {tally.slowest[1]}")
    raise SystemExit(bool(tally.silent))


if __name__ == "__main__":
    main()
