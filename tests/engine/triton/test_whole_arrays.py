"""The quick scans of the tests against the interpreter's own."""

import numpy as np

from tests.engine.triton import asking, whole_arrays


def test_the_interpreter_without_quick_scans_says_the_same(monkeypatch):
    y = np.random.default_rng(0).standard_normal((1, 65))
    asked = asking.rows(["wide"], y, -0.05, 10.0)
    found = asking.solve(asked)
    from triton.runtime.interpreter import ReduceOps, ScanOps

    quick = ScanOps.generic_scan, ReduceOps.apply_impl
    monkeypatch.setattr(ScanOps, "generic_scan", whole_arrays.OWN["scan"])
    monkeypatch.setattr(ReduceOps, "apply_impl", whole_arrays.OWN["reduce"])
    assert quick != (ScanOps.generic_scan, ReduceOps.apply_impl)
    slow = asking.solve(asked)
    # sums in another order, and |lam| is 0.05
    assert np.abs(slow.z - found.z).max() <= 1e-6
    assert slow.steps.tolist() == found.steps.tolist()
