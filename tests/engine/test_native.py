"""The compiled engine against a dense float64 Newton, and against inputs that try to break it."""

import ctypes
import logging
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.special import erf

import ibnn
from ibnn.engine.native import calls as native
from ibnn.engine.native import loader
from ibnn.solver import Newton

pytestmark = pytest.mark.skipif(
    not loader.available(), reason="no C++ compiler: the compiled engine cannot be built"
)

SIGMAS = ("tanh", "hardtanh", "arctan", "erf")
ROW_KINDS = ("normal", "ties", "outlier", "skewed", "bimodal", "constant")


def find_roots(y, strength, atol, sigma):
    """z, residual and steps of rows with slope 1."""
    return native.solve_rows(y, strength, torch.ones_like(strength), atol, 0.0, sigma)[:3]


def sigma_of(x: np.ndarray, name: str, order: int) -> np.ndarray:
    """s_n(x) in plain numpy, written from the definitions."""
    if name == "tanh":
        t = np.tanh(x)
        return [t, 1 - t**2, -2 * t * (1 - t**2), (1 - t**2) * (6 * t**2 - 2)][order]
    if name == "hardtanh":
        return [np.clip(x, -1, 1), (np.abs(x) < 1) * 1.0, 0 * x, 0 * x][order]
    if name == "arctan":
        k, d = np.pi**2 / 4, 1 / (1 + np.pi**2 / 4 * x**2)
        return [
            2 / np.pi * np.arctan(np.pi * x / 2),
            d,
            -2 * k * x * d**2,
            2 * k * d**2 * (3 - 4 * d),
        ][order]
    x = np.clip(x, -100, 100)
    d = np.exp(-np.pi * x**2 / 4)
    return [
        erf(math.sqrt(np.pi) / 2 * x),
        d,
        -np.pi / 2 * x * d,
        (np.pi**2 / 4 * x**2 - np.pi / 2) * d,
    ][order]


def dense_sum(z: np.ndarray, a: np.ndarray | None, order: int, name: str) -> np.ndarray:
    weights = np.ones_like(z) if a is None else a
    return sigma_of(z[None, :] - z[:, None], name, order) @ weights / len(z)


def dense_jacobian(z: np.ndarray, c: float, name: str) -> np.ndarray:
    kernel = sigma_of(z[None, :] - z[:, None], name, 1) / len(z)
    return np.diag(1 - c * kernel.sum(1)) + c * kernel


def dense_root(y: np.ndarray, c: float, name: str, start: np.ndarray) -> np.ndarray:
    """Damped dense Newton; below the threshold the root is unique, so any start will do."""
    z, best, smallest, worse = start.copy(), start.copy(), np.inf, 0
    for _ in range(100):
        r = z + c * dense_sum(z, None, 0, name) - y
        if np.abs(r).max() < smallest:
            smallest, best, worse = np.abs(r).max(), z.copy(), 0
        else:
            worse += 1
        if smallest <= 1e-15 * max(1, np.abs(y).max()) or worse > 4:
            break
        step = np.linalg.solve(dense_jacobian(z, c, name), -r)
        t = 1.0
        while t > 1e-6:  # the energy is convex: never step far past its minimum along the line
            ahead = z + t * step
            if (ahead + c * dense_sum(ahead, None, 0, name) - y) @ step <= 0.5 * abs(r @ step):
                break
            t /= 2
        z = z + t * step
    return best


def make_row(kind: str, units: int, std: float, generator: np.random.Generator) -> np.ndarray:
    x = generator.standard_normal(units) * std
    if kind == "ties":
        x[::2] = x[0]
    elif kind == "outlier":
        x[units // 2] = 1e4
    elif kind == "skewed":
        x = std * (np.exp(generator.standard_normal(units)) - 1)
    elif kind == "bimodal":
        x = 0.1 * x + std * np.where(generator.random(units) < 0.3, -2, 1)
    elif kind == "constant":
        x[:] = x[0]
    return x


def grid_of_rows(units: int, slopes, stds, lams):
    """Cases (y scaled by the slope, strength, slope, std) of the neuron's grid."""
    generator = np.random.default_rng(units)
    for slope in slopes:
        for std in stds:
            for kind in ROW_KINDS:
                y = make_row(kind, units, std, generator)
                for lam in lams:
                    yield y * slope, (lam if lam <= 0 else lam / slope) * slope, slope, std


CASES = {
    units: list(grid_of_rows(units, slopes, stds, lams))
    for units, slopes, stds, lams in (
        (1, (1, 100), (0.01, 10), (-2, 0.8)),
        (2, (1, 10, 100), (0.001, 0.1, 1, 10), (-2, -0.2, 0.3, 0.95)),
        (3, (1, 10, 100), (0.001, 0.1, 1, 10), (-2, -0.2, 0.3, 0.95)),
        (60, (1, 10, 100), (0.01, 1, 10), (-2, -1, -0.2, 0.3, 0.95)),
        (200, (1, 100), (0.001, 0.1, 1, 10), (-2, 0.95)),
    )
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("units", CASES)
def test_the_grid_is_solved_to_the_promised_accuracy(units, sigma, dtype):
    single = dtype == torch.float32
    cases = CASES[units] if (sigma == "tanh" and single) or units < 60 else CASES[units][::7]
    y = torch.tensor(np.stack([case[0] for case in cases])).to(dtype)
    c = torch.tensor([case[1] for case in cases], dtype=torch.float64)
    slope = torch.tensor([case[2] for case in cases], dtype=torch.float64)
    allowed = 1e-5 if single else 1e-10
    z, residual, _ = find_roots(y, c, slope * allowed / 5, sigma)
    g = torch.randn(y.shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    v, relative, dot = native.solve_jacobian(z, g, c, sigma)
    assert residual.isfinite().all()
    assert relative.max() < 1e-3
    for i, (_, strength, p, std) in enumerate(cases):
        exact_y, found = y[i].double().numpy(), z[i].double().numpy()
        exact = dense_root(exact_y, strength, sigma, found)
        error = np.abs(found - exact) / np.maximum(p, np.abs(exact_y))
        # The root cannot be known better than the rounding of the input, 4 ulp here.
        floor = 4 * torch.finfo(dtype).eps * np.abs(exact_y).max() / p
        assert error.max() <= allowed + floor, (i, strength, p, std)
        if (
            sigma == "hardtanh"
            and np.min(np.abs(np.abs(found[None] - found[:, None]) - 1)) < 1e-6 * p
        ):
            continue  # on a kink the gradient is a choice
        jacobian = dense_jacobian(found, strength, sigma)
        expected = np.linalg.solve(jacobian, g[i].double().numpy())
        tolerance = (1e-3 if p * std > 100 else 1e-4) if single else 1e-8
        wrong = np.linalg.norm(v[i].double().numpy() - expected)
        assert wrong <= tolerance * np.linalg.norm(expected), (i, strength, p, std)
        bias = dense_sum(found, None, 0, sigma)
        scale = np.linalg.norm(expected) * max(np.linalg.norm(bias), 1e-3 * math.sqrt(units))
        assert abs(dot[i].item() - expected @ bias) <= tolerance * scale


@pytest.mark.parametrize("scaled_std", [0.006, 0.01, 0.03, 0.1])
def test_narrow_rows_near_the_threshold_have_gradients_twice_as_good_as_promised(scaled_std):
    """1 / (1 - c d) multiplies errors of d by 20 there, and a row is judged by a few units."""
    generator = np.random.default_rng(0)
    z = torch.tensor(generator.standard_normal((40, 200)) * scaled_std).float()
    g = torch.tensor(generator.standard_normal(z.shape)).float()
    v, *_ = native.solve_jacobian(z, g, torch.full((len(z),), 0.95), "tanh")
    for row, found, right in zip(z.double().numpy(), v.double().numpy(), g.numpy(), strict=True):
        expected = np.linalg.solve(dense_jacobian(row, 0.95, "tanh"), right.astype(float))
        # half of the 1e-4 that is promised: what other compilers and processors make of it differs
        assert np.linalg.norm(found - expected) <= 5e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("order", range(4))
def test_pair_sums_agree_with_all_pairs_written_out(sigma, order):
    generator = np.random.default_rng(order)
    for units in (1, 2, 7, 60, 500):
        for std in (1e-3, 1.0, 30.0):
            for kind in ROW_KINDS:
                z, a = make_row(kind, units, std, generator), generator.standard_normal(units)
                for weights in (None, a):
                    expected = dense_sum(z, weights, order, sigma)
                    got = native.pair_sum(
                        torch.tensor(z)[None],
                        None if weights is None else torch.tensor(a)[None],
                        order,
                        sigma,
                    )
                    # 1e-11 of the largest value s_n has (s_3 of arctan: 4.9)
                    assert np.abs(got[0].numpy() - expected).max() <= 1e-10, (units, std, kind)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_sums_of_float_rows_are_exact_to_rounding_of_their_weights(sigma):
    """Also where one unit has all the weight, and on rows that have to be left to doubles."""
    generator = np.random.default_rng(7)
    rows = {
        f"{kind} {std:g}": make_row(kind, 200, std, generator)
        for kind in ROW_KINDS
        for std in (1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0)
    }
    rows["apart"] = generator.standard_normal(200) / 10 + 12.0 * generator.integers(0, 3, 200)
    rows["heavy tails"] = generator.standard_cauchy(200)
    rows["shifted"] = generator.standard_normal(200) + 300
    rows["short"] = generator.standard_normal(16)
    rows["one more than a register"] = generator.standard_normal(265)
    rows["long"] = generator.standard_normal(8300)
    for name, row in rows.items():
        z = row.astype(np.float32)
        exact = z.astype(np.float64)
        random = generator.standard_normal(len(z)).astype(np.float32)
        spike = np.zeros_like(random)
        spike[5] = 1
        seen = slice(0, 200)  # all pairs of the long row would take seconds
        pairs = exact[None, :] - exact[seen, None]
        wide = torch.tensor(z)[None]
        for weights in (None, random, spike) if len(z) < 1000 else (random,):
            a = np.ones(len(z)) if weights is None else weights.astype(np.float64)
            given = None if weights is None else torch.tensor(weights)[None]
            # 2e-7 and 1e-6 of a pair (see quick_cells.h), and a few roundings on either way
            for order, tolerance in ((0, 1.5e-6), (1, 2e-6)):
                got = native.pair_sum(wide, given, order, sigma)[0, seen].double().numpy()
                error = np.abs(got - sigma_of(pairs, sigma, order) @ a / len(z)).max()
                assert error <= tolerance * np.abs(a).mean(), (name, order)
            if given is not None:
                slopes = sigma_of(pairs, sigma, 1)
                change = (slopes @ a - slopes.sum(1) * a[seen]) / len(z)
                error = np.abs(native.bias_change(wide, given, sigma)[0, seen].numpy() - change)
                assert (error <= 2e-6 * (np.abs(a).mean() + np.abs(a[seen]))).all(), name


@pytest.mark.parametrize("sigma", SIGMAS)
def test_wide_rows_of_many_units(sigma):
    """A range of a thousand, a cluster with far units, 5000 units: by residual and order kept."""
    generator = torch.Generator().manual_seed(1)
    cluster = torch.randn(784, generator=generator)
    cluster[::97] = torch.tensor([1e6, -3e4, 50.0, -80.0, 1e3, 200.0, -1e6, 44.0, 1e5])
    for y in (
        torch.randn(784, generator=generator) * 100,
        cluster,
        torch.randn(5000, generator=generator) * 3,
    ):
        for c in (-200.0, -2.0, 0.8):
            atol = 2e-4 if c < -100 else 2e-5
            z, residual, _ = find_roots(y[None], torch.tensor([c]), torch.tensor([atol]), sigma)
            wide = z[0].double()
            bias = native.pair_sum(wide[None], None, 0, sigma)[0]
            found = (wide + c * bias - y.double()).abs() / y.double().abs().clamp(min=1)
            assert found.max() <= 5 * atol
            assert residual[0] < 1
            assert (
                wide[y.argsort()].diff() >= -2 * atol
            ).all()  # order is kept up to the accuracy asked for


def test_zero_strength_returns_the_input_bit_by_bit():
    y = torch.randn(5, 70)
    z, residual, steps = find_roots(y, torch.zeros(5), torch.full((5,), 1e-5), "tanh")
    assert torch.equal(z, y)
    assert residual.eq(0).all()
    assert steps.eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bad_row_leaves_its_neighbours_alone(dtype):
    y = torch.randn(4, 300, dtype=dtype)
    c, atol = torch.full((4,), -2.0), torch.full((4,), 1e-5)
    alone = find_roots(y[2:3], c[:1], atol[:1], "tanh")[0]
    y[0, 5], y[1, 7], y[3, 0] = math.nan, math.inf, 1e6
    z, residual, _ = find_roots(y, c, atol, "tanh")
    assert z[:2].isnan().all()
    assert residual[:2].isinf().all()
    assert torch.equal(z[2], alone[0])
    assert z[3].isfinite().all()


@pytest.mark.parametrize("sigma", SIGMAS)
def test_above_the_threshold_it_ends_with_an_honest_residual(sigma):
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(6, 120, generator=generator)
    y *= torch.tensor([0.01, 0.1, 1, 1, 10, 100])[:, None]
    c = torch.tensor([1.5, 3.0, 1.01, 30.0, 5.0, 1000.0])
    z, residual, _ = find_roots(y, c, torch.full((6,), 1e-5), sigma)
    true = (
        (z.double() + c[:, None].double() * native.pair_sum(z.double(), None, 0, sigma) - y)
        .abs()
        .amax(1)
    )
    rounding = 1e-6 * (z.abs().amax(1) + c)
    assert (true <= residual * 1.01 + rounding).all()


def test_the_residual_is_measured():
    """Where little accuracy is asked for, the reported residual is that of the rough answer."""
    y = torch.randn(20, 784, generator=torch.Generator().manual_seed(0))
    y *= torch.logspace(-2, 2, 20)[:, None]
    c = torch.linspace(-20, 0.9, 20)
    z, residual, _ = find_roots(y, c, torch.full((20,), 1e-1), "tanh")
    true = (
        (z.double() + c[:, None].double() * native.pair_sum(z.double(), None, 0, "tanh") - y)
        .abs()
        .amax(1)
    )
    rounding = 1e-6 * (y.abs().amax(1) + c.abs())
    assert (true <= 10 * residual + 2 * rounding).all()
    assert (true > 2 * rounding).any()  # or a residual of 0 would do as well


def test_a_default_device_elsewhere_leaves_rows_of_the_cpu_alone():
    y = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(0))
    lam = torch.tensor([-0.1, 0.02, 0.05])
    expected = ibnn.implicit_bias(y, lam)
    with torch.device("meta"):
        for coupling in (None, ibnn.Uniform((-2, -1))):
            again = y.clone().requires_grad_()
            z = ibnn.implicit_bias(again, lam if coupling is None else -0.1, coupling=coupling)
            z.sum().backward()
            assert again.grad.is_cpu
            assert coupling is not None or torch.equal(z, expected)


def test_empty_inputs():
    for shape in ((0, 5), (3, 0)):
        y = torch.zeros(shape)
        z, residual, steps = find_roots(y, torch.zeros(shape[0]), torch.ones(shape[0]), "tanh")
        assert z.shape == y.shape
        assert residual.shape == steps.shape == (shape[0],)
        assert native.pair_sum(y, None, 1, "erf").shape == y.shape


NASTY = """
import ctypes, itertools, sys
import torch
import ibnn
from ibnn.engine.native import calls as native, loader
library = ctypes.CDLL(sys.argv[1])
loader.library = lambda: library
nan, inf = float("nan"), float("inf")
special = [0.0, -0.0, nan, inf, -inf, 1e38, -1e38, 3e38, 1e-45, -1e-40, 1e-30, -1.0, 1e6, 1e20]
for dtype in (torch.float32, torch.float64):
    # short rows come in many shapes, and a fault may need a rare one
    for units, seed in [*itertools.product((1, 2, 3), range(8)), (49, 0), (150, 0)]:
        torch.manual_seed(seed)
        base = torch.randn(units)
        rows = [base * 10.0 ** k for k in (-44, -30, -3, 0, 1, 2, 3, 5, 10, 30, 37)]
        rows += [torch.full((units,), x) for x in special]
        for x in special:
            spoilt = base.clone()
            spoilt[units // 2] = x
            rows.append(spoilt)
        rows.append(base + 1e6)
        rows.append(torch.where(torch.arange(units) % 2 == 0, 1e38, -1e38))
        y = torch.stack(rows).to(dtype)
        g = torch.randn_like(y)
        strengths = (-1e30, -200.0, -2.0, 0.3, 0.999999, 1.0, 2.0, 1e4, nan)
        for sigma, c in itertools.product(native.SIGMAS, strengths):
            if units > 3 and c not in (-200.0, 0.3, 2.0):
                continue
            strength, atol = torch.full((len(y),), c), torch.full((len(y),), 1e-5)
            by_pairs = sigma == "peaked"  # it has no other sums
            weights = native.Weights(torch.full((units, units), 1 / units)) if by_pairs else None
            one = torch.ones_like(strength)
            z, _, _, _ = native.solve_rows(y, strength, one, atol, 0.0, sigma, weights)
            native.solve_jacobian(y, g, strength, sigma, weights)
            good = y.isfinite().all(1)
            assert z[~good].isnan().all()
            if by_pairs:
                continue
            for order in range(4):
                native.pair_sum(y, g, order, sigma)
            native.bias_change(y, g, sigma)
print("survived")
"""


def test_no_input_makes_it_leave_its_arrays():
    """A build with checked arrays meets NaN, inf, 1e38, denormals, huge strengths, tiny rows."""
    library = loader.build(("-O1", "-DIBNN_CHECKED"))
    result = subprocess.run(
        [sys.executable, "-c", NASTY, str(library)], capture_output=True, text=True, timeout=300
    )
    assert result.stdout.strip() == "survived", result.stderr[-2000:]


def test_the_check_itself_works():
    """The checked build reports an access outside an array, so the test above can fail."""
    library = ctypes.CDLL(str(loader.build(("-O1", "-DIBNN_CHECKED"))))
    assert library.ibnn_index_outside() == 1
    assert ctypes.CDLL(str(loader.build())).ibnn_index_outside() == 0


def test_it_runs_in_torchs_own_thread_pool():
    code = """
import os, torch
import ibnn
from ibnn.engine.native import calls as native
torch.set_num_threads(2)
w = torch.randn(400, 400)
for _ in range(20): w @ w
before = len(os.listdir("/proc/self/task"))
y, one = torch.randn(400, 300), torch.ones(400)
native.solve_rows(y, -2 * one, one, 1e-5 * one, 0.0, "tanh")
w @ w
print(before, len(os.listdir("/proc/self/task")))
"""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("counting threads needs /proc")
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    before, after = map(int, result.stdout.split())
    assert after <= max(before, 2)


def test_it_can_be_switched_off(monkeypatch, caplog):
    loader._found.cache_clear()
    monkeypatch.setenv("IBNN_NATIVE", "0")
    try:
        with caplog.at_level(logging.INFO):
            assert not loader.available()
            assert not loader.available()
        assert len(caplog.records) == 1
    finally:
        loader._found.cache_clear()


def test_without_a_compiler_one_line_says_so(monkeypatch, caplog, tmp_path):
    loader._found.cache_clear()
    monkeypatch.setenv("IBNN_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        assert not loader.available()
        assert len(caplog.records) == 1
        assert "no C++ compiler" in caplog.text
    finally:
        loader._found.cache_clear()


def test_fewer_steps_allowed_than_newton_has_leave_the_engine_in_place(monkeypatch):
    y = torch.randn(8, 200, generator=torch.Generator().manual_seed(0))
    usual = ibnn.solve(y, -0.1)
    monkeypatch.setattr(Newton, "find", None)  # what no row needs
    limited = ibnn.solve(y, -0.1, max_steps=int(usual.steps.max()))
    assert torch.equal(limited.value, usual.value)


def test_a_row_over_its_steps_is_the_solvers_own():
    y = torch.randn(8, 200, generator=torch.Generator().manual_seed(0))
    with pytest.warns(ibnn.ConvergenceWarning, match="8 of 8 rows"):
        limited = ibnn.solve(y, -2.0, max_steps=1)
    with pytest.warns(ibnn.ConvergenceWarning):
        alone = ibnn.solve(y, -2.0, start=y, max_steps=1)
    assert (limited.steps == 1).all()
    torch.testing.assert_close(limited.value, alone.value)


@pytest.mark.parametrize("std", [0.1, 1.0])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_long_rows_take_few_steps(sigma, std):
    """Newton starts near the solution: two or three steps at the strengths of training."""
    y = std * torch.randn(16, 1024, generator=torch.Generator().manual_seed(0))
    slope = torch.full((16,), 10.0)
    *_, steps, solved = native.solve_rows(y, -0.1 * slope, slope, 2e-6 * slope, 2e-5, sigma)
    assert solved.all()
    assert steps.max() <= 3


@pytest.mark.parametrize(("units", "std"), [(1024, 1.0), (1024, 3.0), (1024, 10.0), (4096, 10.0)])
def test_wide_rows_of_arctan_are_solved_on_nodes(units, std):
    """Up to a range of a thousand; the first steps are on nodes, and unit by unit it takes 2."""
    y = std * torch.randn(16, units, generator=torch.Generator().manual_seed(0))
    slope = torch.full((16,), 10.0)
    *_, steps, solved = native.solve_rows(y, -0.1 * slope, slope, 2e-6 * slope, 2e-5, "arctan")
    assert solved.all()
    assert steps.double().mean() < 1.75


@pytest.mark.parametrize("units", [60, 700])
def test_arctan_is_right_at_any_distance(units):
    """Some units stand apart, as far as running sums go (a range of a thousand) and farther."""
    generator = np.random.default_rng(units)
    for apart in (*np.geomspace(0.3, 900, 9), 1e3, 3e3, 1e6):
        exact_y = generator.standard_normal(units) / 4
        exact_y[units // 3 :: 7] += apart
        y = torch.tensor(exact_y, dtype=torch.float32)[None]
        exact_y = y[0].double().numpy()
        g = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
        for c in (-1.0, 0.6):
            strength = torch.tensor([c])
            z, *_ = find_roots(y, strength, torch.tensor([2e-6]), "arctan")
            v, *_ = native.solve_jacobian(z, g, strength, "arctan")
            found = z[0].double().numpy()
            error = np.abs(found - dense_root(exact_y, c, "arctan", found))
            # atol, and four roundings of the units that are far
            assert (error <= 2e-6 + 2.5e-7 * np.abs(exact_y)).all(), (apart, c)
            expected = np.linalg.solve(dense_jacobian(found, c, "arctan"), g[0].double().numpy())
            wrong = np.linalg.norm(v[0].double().numpy() - expected)
            assert wrong <= 4e-5 * np.linalg.norm(expected), (apart, c)  # what the nodes allow


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_runs_of_hardtanh_units_are_found_at_any_place(dtype):
    """Units exactly 1 apart, far groups, ties: one row is solved after the other, whatever
    the units of the last one were."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(6, 300, generator=generator, dtype=torch.float64)
    drawn[1] = torch.arange(300) % 7  # on the kinks
    drawn[2, ::3] += 1e6
    drawn[3] = torch.where(torch.arange(300) < 150, 0.25, 40.0)
    drawn[4] *= 1e4
    y, g = drawn.to(dtype), torch.randn(6, 300, generator=generator).to(dtype)
    c = torch.full((6,), -2.0)
    z, *_ = find_roots(y, c, torch.full((6,), 1e-9), "hardtanh")
    v, *_ = native.solve_jacobian(drawn.to(dtype), g, c, "hardtanh")
    eps = torch.finfo(dtype).eps
    for row, at, start, rhs, found in zip(y, z, drawn.to(dtype), g, v, strict=True):
        residual = at.double().numpy() - 2 * dense_sum(at.double().numpy(), None, 0, "hardtanh")
        allowed = 1e-9 + 4 * eps * np.maximum(1, np.abs(row.double().numpy()))
        assert (np.abs(residual - row.double().numpy()) <= allowed).all()
        jacobian = dense_jacobian(start.double().numpy(), -2.0, "hardtanh")
        expected = np.linalg.solve(jacobian, rhs.double().numpy())
        wrong = np.linalg.norm(found.double().numpy() - expected)
        assert wrong <= (1e-4 if dtype == torch.float32 else 1e-8) * np.linalg.norm(expected)
