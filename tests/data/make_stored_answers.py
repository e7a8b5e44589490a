"""Writes stored_answers.npz: the oracle's answers to a dozen large rows (a few minutes).

Run from the root of the project: python -m tests.data.make_stored_answers
"""

import time

import numpy as np

from tests import oracle
from tests.bank import STORED_ANSWERS, exact, rows

CASES = [  # units, kind of row, slope, lam as a number or as a share of the threshold ("0.8 T")
    (784, "normal std 0.1", 10.0, -0.2),
    (784, "normal std 0.03", 10.0, "0.95 T"),
    (784, "normal std 1", 10.0, "0.8 T"),
    (784, "normal std 0.1", 100.0, -2.0),
    (784, "one unit at 1e4", 10.0, -0.5),
    (784, "bimodal", 10.0, "0.95 T"),
    (784, "ties", 100.0, -1.0),
    (5000, "normal std 0.1", 10.0, -0.2),
    (5000, "normal std 1", 10.0, "0.95 T"),
    (5000, "normal std 0.01", 100.0, "0.8 T"),
    (5000, "normal std 10", 100.0, -2.0),
    (5000, "skewed", 10.0, -1.0),
]


def main() -> None:
    rng = np.random.default_rng(7)
    arrays, names, lams, slopes = {}, [], [], []
    for k, (units, kind, slope, lam) in enumerate(CASES):
        started = time.monotonic()
        y = rows(units, rng)[kind]
        name = f"D={units} slope={slope:g} lam={lam} {kind}"
        lam = exact(float(lam.removesuffix(" T")) / slope if isinstance(lam, str) else lam)
        arrays[f"y{k}"] = y.astype(np.float32)  # without loss: see bank.exact
        arrays[f"z{k}"] = oracle.solve_row(y, lam, slope)
        names.append(name)
        lams.append(lam)
        slopes.append(slope)
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
    np.savez_compressed(STORED_ANSWERS, name=names, lam=lams, slope=slopes, **arrays)
    print(f"{STORED_ANSWERS.name}: {STORED_ANSWERS.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
