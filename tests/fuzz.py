"""Rows made to break an engine, each judged by the oracle: an answer is right, or was reported.

    python -m tests.fuzz --engine native --rows 10000 --seed 1

draws rows (`tests/fuzz_cases.py`: heavy tails, ties, crowds, tiny and huge scales, lam from -5 to
0.999 of the threshold, slopes from 0.01 to 1000, gradients of any size); solves each alone, as a
user would; and counts the silent failures: errors of z, dL/dy, dL/dlam or dL/dslope above what is
promised (`tests.bank`) that no warning told of. With any of them it ends with code 1.

A row depends on its seed and number only: `--first 5000 --rows 5000` is the second half of the
rows above, for a second process or to go on where one was stopped. `tests/test_fuzz.py` runs a
slice of it. The Triton engine runs on the CPU with TRITON_INTERPRET=1 in the environment.
"""

import argparse
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch

import ibnn
from ibnn import ConvergenceWarning
from ibnn.engine import EngineError
from tests import oracle
from tests.engine.triton import whole_arrays
from tests.fuzz_cases import SIZES, Case, cases

PROGRESS_EVERY = 60.0  # seconds


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
    try:
        z = oracle.solve_row(case.y, *settings, start=start)
    except (ArithmeticError, np.linalg.LinAlgError) as stuck:  # no verdict is no pass
        return [str(stuck)]
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
        yield f"z is off by {np.max(error):.3g} where its range is {np.ptp(z):.3g}"


def _wrong_gradient(
    case: Case, answer: Answer, z: np.ndarray, settings: tuple, scaled: np.ndarray | None = None
) -> list[str]:
    """`scaled` is slope * z where that is known to the last digit, which z then is not."""
    lam, slope, weights, sigma = settings
    if scaled is None:
        pairs = oracle.pairs_row(z, *settings)
        v, dlam, dslope = pairs.gradient(case.g)
        by_slope = np.linalg.norm(pairs.by_slope)
    else:  # in units where the slope is 1, in which dB/dslope has a factor slope
        pairs = oracle.pairs_row(scaled, lam * slope, 1.0, weights, sigma)
        v, dlam, dslope = pairs.gradient(case.g)
        dslope /= slope**2
        by_slope = np.linalg.norm(pairs.by_slope) / slope
    share = 1e-8 if case.precision == "float64" else 1e-4
    if case.precision == "float32" and slope * np.std(case.y) > 100:
        share = 1e-3
    size = np.linalg.norm(v)
    bias = np.linalg.norm(pairs.bias)
    # dB/dslope is made of x s'(x) / slope, up to 0.45 / slope, and computed as a difference of
    # terms of size |z|, which have the digits of a double at most
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
    near = 1e-3 * case.slope * 1e-2 + 1e-5 + 16 * eps * case.slope * np.abs(z).max()
    x = case.slope * np.sort(z)
    # the first unit that is at least 1 - near above each; it decides, for it is the nearest
    least = np.searchsorted(x, x + (1 - near))
    found = least < len(x)
    return bool((x[least[found]] - x[found] <= 1 + near).any())


@dataclass
class Tally:
    rows: int = 0
    declined: int = 0  # by the engine, which says why
    silent: list[str] = field(default_factory=list)
    reported: Counter = field(default_factory=Counter)
    alarms: list[str] = field(default_factory=list)  # reported where accuracy is promised
    most_steps: int = 0
    seconds: float = 0.0  # of the engine
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
        self.seconds += answer.seconds
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
    said = time.monotonic()
    for case in cases(seed, first, rows, sizes, uniform_only):
        if time.monotonic() - said > PROGRESS_EVERY:
            said = time.monotonic()
            left = first + rows - case.number
            say(f"{engine}, seed {seed}, left --first {case.number} --rows {left}: {tally}")
        try:
            answer = ask(case, engine)
        except EngineError:
            tally.declined += 1
            continue
        before = len(tally.silent), len(tally.alarms)
        tally.take(case, answer, judge(case, answer))
        for line in (*tally.silent[before[0] :], *tally.alarms[before[1] :]):
            say(line)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="native")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=SIZES[1], help="units of the longest row")
    chosen = parser.parse_args()
    # Triton's interpreter takes minutes for a row without it
    quick = whole_arrays.quick() if chosen.engine == "triton" else nullcontext()
    began = time.process_time()
    with quick:
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
    spent = time.process_time() - began
    print(f"{spent:.0f} s of processor time, {tally.seconds:.0f} of them the engine's")
    raise SystemExit(bool(tally.silent))


if __name__ == "__main__":
    main()
