"""Rows coupled by a window or a matrix, solved by the compiled engine."""

import math

import numpy as np
import pytest
import torch

import ibnn
from ibnn.engine.native import calls as native
from ibnn.engine.native import loader
from tests import bank, oracle

pytestmark = pytest.mark.skipif(not loader.available(), reason="no C++ compiler")

# what the library asks of the engine: accuracy of z before the slope, and as a share of the range
ATOL = {torch.float32: 2e-6, torch.float64: 1e-12}
RESOLUTION = {torch.float32: 2e-5, torch.float64: 1e-9}
GRADIENT = {torch.float32: 1e-4, torch.float64: 1e-8}


def window(units, kernel, profile="box", std=None) -> tuple[native.Weights, np.ndarray]:
    """The taps, and the same weights as a matrix. Taps of a window have the mass 1."""
    coupling = ibnn.Window(kernel, profile, std)
    taps = coupling.weight(torch.float64)
    return native.Weights(taps, units), oracle.window_weights(units, kernel, profile, std)


def matrix(units: int) -> tuple[native.Weights, np.ndarray]:
    """Dense, with row sums around 1, and two units that do not hear each other."""
    weight = bank.exact(np.random.default_rng(units).random((units, units)) / units)
    weight = bank.exact(weight + weight.T)
    if units > 2:
        weight[0, -1] = weight[-1, 0] = 0
    return native.Weights(torch.from_numpy(weight)), weight


# lines shorter and longer than a register, windows larger than the map, and each number of dims
COUPLINGS = {
    "3x3 on 6x9": window((6, 9), (3, 3)),
    "5x3 gaussian on 4x21": window((4, 21), (5, 3), "gaussian", 1.25),
    "9x9 on 5x7": window((5, 7), (9, 9)),
    "5 on 61": window((61,), (5,)),
    "3x5x3 on 3x4x5": window((3, 4, 5), (3, 5, 3)),
    "matrix of 2": matrix(2),
    "matrix of 17": matrix(17),
    "matrix of 64": matrix(64),
}


def threshold(matrix: np.ndarray) -> float:
    return oracle.threshold(1.0, matrix)


def rows(units: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    drawn = {f"std {std:g}": std * rng.standard_normal(units) for std in (0.01, 0.3, 10.0)}
    drawn["one unit at 1e3"] = np.append(1e3, rng.standard_normal(units - 1))
    drawn["ties"] = np.round(2 * rng.standard_normal(units)) / 4
    drawn["heavy tails"] = rng.standard_t(2, units)
    drawn["crowd"] = np.where(rng.random(units) < 0.8, 0.01, 1) * rng.standard_normal(units)
    drawn["nearly equal"] = 0.7 + 1e-5 * rng.standard_normal(units)
    drawn["after a ReLU"] = np.maximum(0, rng.standard_normal(units))
    return {kind: bank.exact(y) for kind, y in drawn.items()}


def solve(y, strength, slope, sigma, dtype, weights=None):
    """z, residual, steps, solved; one strength for each row."""
    y = torch.as_tensor(y).to(dtype)
    slope = torch.full((len(y),), slope, dtype=torch.float64)
    strength = torch.as_tensor(strength, dtype=torch.float64).expand(len(y))
    how = ATOL[dtype] * slope, RESOLUTION[dtype], sigma, weights
    return native.solve_rows(y, strength, slope, *how)


@pytest.mark.parametrize("dtype", ATOL, ids=str)
@pytest.mark.parametrize("sigma", oracle.SIGMAS)
@pytest.mark.parametrize("name", COUPLINGS)
def test_solutions_and_gradients_are_those_of_the_oracle(name, sigma, dtype):
    weights, matrix = COUPLINGS[name]
    precision = str(dtype).removeprefix("torch.")
    rng = np.random.default_rng(len(matrix))
    shares = (0.3, 0.95)
    for slope in bank.SLOPES if sigma == "tanh" else bank.SLOPES[1:]:
        drawn = rows(len(matrix), rng)
        strengths = [-2 * slope, -0.1 * slope, *(s * threshold(matrix) for s in shares)]
        asked = [(kind, y, float(c)) for kind, y in drawn.items() for c in strengths]
        y = np.stack([row for _, row, _ in asked])
        c = torch.tensor([c for *_, c in asked], dtype=torch.float64)
        z, _, steps, solved = solve(y, c, slope, sigma, dtype, weights)
        assert solved.all()
        assert steps.max() <= 40
        scaled = z * slope
        g = torch.as_tensor(bank.exact(rng.standard_normal(y.shape))).to(dtype)
        v, error, dot = native.solve_jacobian(scaled, g, c, sigma, weights)
        assert (error <= GRADIENT[dtype]).all()
        for i, (kind, row, strength) in enumerate(asked):
            exact = oracle.solve_row(row, strength / slope, slope, matrix, sigma)
            wrong = np.abs(z[i].double().numpy() - exact)
            # z cannot be told better than to the rounding of y and of itself
            rounding = 2 * torch.finfo(dtype).eps * np.abs(row)
            assert (wrong <= bank.allowed_error(row, precision) + rounding).all(), (kind, strength)
            at = scaled[i].double().numpy()
            expected, by_lam, _ = oracle.gradient_row(
                at, strength, 1.0, g[i].double().numpy(), matrix, sigma, at
            )
            size = np.linalg.norm(expected)
            wrong = np.linalg.norm(v[i].double().numpy() - expected)
            assert wrong <= GRADIENT[dtype] * size, (kind, strength)
            bias = np.linalg.norm(oracle.bias_row(at, 1.0, matrix, sigma))
            assert abs(float(dot[i]) + by_lam) <= GRADIENT[dtype] * size * bias, (kind, strength)


@pytest.mark.parametrize("name", ["5x3 gaussian on 4x21", "matrix of 64"])
@pytest.mark.parametrize("sigma", oracle.SIGMAS)
def test_strong_coupling_and_the_last_step_to_the_threshold(name, sigma):
    """Right, or said not to be: lam = -5 at slopes up to 1000, and 0.99 to 0.9999 of it."""
    weights, matrix = COUPLINGS[name]
    rng = np.random.default_rng(3)
    for slope in (10.0, 1000.0):
        drawn = rows(len(matrix), rng)
        strengths = [-5 * slope, *(s * threshold(matrix) for s in (0.99, 0.999, 0.9999))]
        asked = [(kind, y, float(c)) for kind, y in drawn.items() for c in strengths]
        y = np.stack([row for _, row, _ in asked])
        c = np.array([c for *_, c in asked])
        z, _, steps, solved = solve(y, c, slope, sigma, torch.float32, weights)
        assert (~solved).sum() <= 0.02 * len(y)
        assert steps.max() <= 100 + 100  # as floats, and then as doubles
        for i, (kind, row, strength) in enumerate(asked):
            if not solved[i]:
                continue
            start = z[i].double().numpy()
            exact = oracle.solve_row(row, strength / slope, slope, matrix, sigma, start=start)
            wrong = np.abs(start - exact)
            # eigenvalues of J down to 1e-4 multiply the rounding of y and of lam
            rounding = 2e-7 * np.abs(row).max() / max(1 - strength / threshold(matrix), 1e-4)
            assert (wrong <= bank.allowed_error(row, "float32") + rounding).all(), (kind, strength)


@pytest.mark.parametrize("name", COUPLINGS)
@pytest.mark.parametrize("dtype", ATOL, ids=str)
def test_the_residuals_that_are_reported_are_those_of_all_units(name, dtype):
    weights, matrix = COUPLINGS[name]
    rng = np.random.default_rng(8)
    y = np.stack(list(rows(len(matrix), rng).values()))
    # the last is far above the threshold
    for c in (-20.0, -1.0, 0.9 * threshold(matrix), 3.0):
        z, residual, _, _ = solve(y, c, 10.0, "tanh", dtype, weights)
        eps = torch.finfo(dtype).eps
        for i in range(len(y)):
            at = 10 * z[i].double().numpy()
            true = np.abs(oracle.residual_row(at, 10 * y[i], c, 1.0, matrix)).max()
            # z and y are rounded, J makes it visible; sums are rounded
            rounding = 2 * eps * (1 + 2 * abs(c)) * (1 + np.abs(10 * y[i]).max())
            assert true <= 1.01 * float(residual[i]) + rounding


def test_the_error_of_the_adjoint_is_measured():
    """It is that of the v that comes back."""
    weights, matrix = COUPLINGS["3x3 on 6x9"]
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(64, 54, generator=generator) * torch.logspace(-1, 1.5, 64)[:, None]
    g = torch.randn(z.shape, generator=generator)
    c = torch.cat([torch.linspace(-200, 0.6, 32), torch.linspace(-2, 0.6, 32)])
    v, error, _ = native.solve_jacobian(z, g, c, "tanh", weights)
    assert error.max() <= 1e-4
    seen = 0
    for i in range(64):
        at = z[i].double().numpy()
        exact, *_ = oracle.gradient_row(
            at, float(c[i]), 1.0, g[i].double().numpy(), matrix, "tanh", at
        )
        true = np.linalg.norm(v[i].double().numpy() - exact) / np.linalg.norm(exact)
        # slopes are rounded to 1e-7, and J, which has them times c, is what the residual is of
        rounding = 2e-7 * (1 + abs(float(c[i])))
        assert true <= 2 * float(error[i]) + rounding
        seen += true > rounding
    assert seen >= 3  # or an error of 0 would do as well


@pytest.mark.parametrize("name", ["3x3 on 6x9", "5 on 61", "matrix of 17"])
def test_a_row_is_the_same_in_any_company(name):
    """Bit by bit, also beside rows that are not finite."""
    weights, matrix = COUPLINGS[name]
    generator = torch.Generator().manual_seed(1)
    y = torch.randn(9, len(matrix), generator=generator)
    y[3], y[5, 2], y[7, 1], y[8] = 1e6 * y[3], math.nan, math.inf, 0.5
    z, residual, steps, solved = solve(y, -2.0, 10.0, "tanh", torch.float32, weights)
    v, error, dot = native.solve_jacobian(y, y, torch.full((9,), -2.0), "tanh", weights)
    for i in (5, 7):
        assert z[i].isnan().all()
        assert residual[i].isinf()
        assert not solved[i]
        assert v[i].isnan().all()
        assert error[i].isinf()
    for i in (0, 1, 2, 3, 4, 6, 8):
        alone = solve(y[i : i + 1], -2.0, 10.0, "tanh", torch.float32, weights)
        assert torch.equal(z[i], alone[0][0])
        assert int(steps[i]) == int(alone[2][0])
        assert solved[i]
        again = native.solve_jacobian(
            y[i : i + 1], y[i : i + 1], torch.full((1,), -2.0), "tanh", weights
        )
        assert torch.equal(v[i], again[0][0])
        assert dot[i] == again[2][0]


@pytest.mark.parametrize("dtype", ATOL, ids=str)
@pytest.mark.parametrize("name", ["3x3 on 6x9", "matrix of 17"])
def test_there_is_no_smallest_spread(name, dtype):
    """slope |z| small: the equation is linear, (1 - c L) z = y with L the Laplacian."""
    weights, matrix = COUPLINGS[name]
    generator = torch.Generator().manual_seed(2)
    laplacian = torch.from_numpy(np.diag(matrix.sum(1)) - matrix)
    for scale in (1e-4, 1e-7, 1e-13, 1e-19, 1e-30):
        y = scale * torch.randn(3, len(matrix), generator=generator, dtype=dtype)
        for c in (-10.0, -0.5, 0.3, 0.9 * threshold(matrix)):
            z, _, _, solved = solve(y, c, 10.0, "tanh", dtype, weights)
            assert solved.all()
            system = torch.eye(len(matrix), dtype=torch.float64) - c * laplacian
            linear = torch.linalg.solve(system, y.double().T).T
            # s(x) = x - x^3 / 3, with x up to 10 times the spread of z
            bent = (60 * float(linear.abs().max())) ** 2
            share = RESOLUTION[dtype] / min(1, 1 - c / threshold(matrix))
            asked = share * (y.amax() - y.amin()) + bent * linear.abs().max()
            assert (z - linear).abs().max() <= asked


@pytest.mark.parametrize("name", ["3x3 on 6x9", "matrix of 17"])
def test_gradients_of_any_size(name):
    weights, matrix = COUPLINGS[name]
    generator = torch.Generator().manual_seed(4)
    for dtype, exponents in {
        torch.float32: (-120, -80, 40, 63, 110),
        torch.float64: (-1000, -600, 600, 1000),
    }.items():
        z = torch.randn(1, len(matrix), generator=generator, dtype=dtype)
        g = torch.randn(z.shape, generator=generator, dtype=dtype)
        strength = torch.tensor([-3.0])
        v, _, dot = native.solve_jacobian(z, g, strength, "tanh", weights)
        for exponent in exponents:
            power = 2.0**exponent
            scaled, error, _ = native.solve_jacobian(z, g * power, strength, "tanh", weights)
            assert torch.equal(scaled, v * power)
            assert error.max() <= GRADIENT[dtype]
        nothing = native.solve_jacobian(z, 0 * g, strength, "tanh", weights)
        assert not any(part.any() for part in nothing)
        assert dot.isfinite().all()


@pytest.mark.parametrize("sigma", oracle.SIGMAS)
@pytest.mark.parametrize("name", ["3x3 on 6x9", "matrix of 17"])
def test_above_the_threshold_the_energy_falls_to_a_minimum(name, sigma):
    weights, matrix = COUPLINGS[name]
    rng = np.random.default_rng(6)
    stds = np.repeat([1e-3, 0.01, 0.1, 1.0], 3)
    y = np.stack([std * rng.standard_normal(len(matrix)) for std in stds])
    y = bank.exact(y)
    for above in (1.05, 1.5, 4.0):
        c = above * threshold(matrix)
        z, residual, steps, solved = solve(y, c, 10.0, sigma, torch.float64, weights)
        assert steps.max() <= 100
        assert solved.float().mean() >= 0.75
        for i in range(len(y)):
            at, there = 10 * z[i].numpy(), 10 * y[i]
            true = np.abs(oracle.residual_row(at, there, c, 1.0, matrix, sigma)).max()
            assert true <= float(residual[i]) + 1e-12 * (1 + c + np.abs(at).max())
            now, before = (oracle.energy_row(x, there, c, 1.0, matrix, sigma) for x in (at, there))
            assert now <= before + 1e-12 * (1 + abs(before))
            if solved[i] and sigma != "hardtanh":  # a kink may lie at its minimum
                lowest = np.linalg.eigvalsh(oracle.jacobian_row(at, c, 1.0, matrix, sigma))[0]
                assert lowest > 0


def test_zero_strength_returns_the_input_bit_by_bit():
    weights, matrix = COUPLINGS["3x3 on 6x9"]
    y = torch.randn(3, len(matrix))
    z, residual, steps, solved = solve(y, 0.0, 10.0, "tanh", torch.float32, weights)
    assert torch.equal(z, y)
    assert solved.all()
    assert not residual.any()
    assert not steps.any()
    v, _, dot = native.solve_jacobian(y, y, torch.zeros(3), "tanh", weights)
    assert torch.equal(v, y)
    expected = [row @ oracle.bias_row(row, 1.0, matrix) for row in y.double().numpy()]
    np.testing.assert_allclose(dot.numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sigma", ["tanh", "erf"])
def test_slopes_that_are_not_kept_give_the_same(sigma):
    """Those of large windows and matrices would not stay in the cache."""
    y = torch.randn(1, 96 * 96, generator=torch.Generator().manual_seed(5))
    wide = native.Weights(torch.full((25, 25), 1 / 625), (96, 96))
    z, _, steps, solved = solve(y, -1.0, 10.0, sigma, torch.float32, wide)
    assert solved.all()
    assert steps.max() <= 6
    bias = native.window_sum(10 * z.double(), None, wide.weight, 0, sigma, (96, 96))
    assert (10 * z.double() - bias - 10 * y.double()).abs().max() <= 2e-5
    many = native.Weights(torch.full((2100, 2100), 1 / 2100))
    y = y[:, :2100]
    z, _, _, solved = solve(y, -1.0, 10.0, sigma, torch.float32, many)
    assert solved.all()
    uniform, *_ = solve(y, -1.0, 10.0, sigma, torch.float32)
    assert (10 * (z - uniform)).abs().max() <= 4e-5
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(6))
    v, *_ = native.solve_jacobian(10 * z, g, torch.tensor([-1.0]), sigma, many)
    expected, *_ = native.solve_jacobian(10 * z, g, torch.tensor([-1.0]), sigma)
    assert (v - expected).norm() <= 1e-4 * expected.norm()


@pytest.mark.parametrize("coupling", [ibnn.Window((3, 3)), ibnn.Dense(units=36)], ids=str)
def test_a_solve_is_one_call_and_so_is_its_gradient(coupling, monkeypatch):
    """One parallel region each: every call of the library has one."""
    calls = []
    honest = native.run
    monkeypatch.setattr(native, "run", lambda name, *a: calls.append(name) or honest(name, *a))
    shape = (5, 6, 6) if isinstance(coupling, ibnn.Window) else (5, 36)
    y = torch.randn(shape, requires_grad=True)
    lam = torch.tensor(-0.2, requires_grad=True)
    z = ibnn.implicit_bias(y, lam, coupling=coupling)
    assert calls == ["find_weighted_roots"]
    z.square().sum().backward()
    assert calls == ["find_weighted_roots", "solve_weighted_jacobian"]
    assert ibnn.residual(z, y, lam, 10.0, coupling=coupling).abs().max() < 1e-5
