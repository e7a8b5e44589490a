"""The portable engine against dense float64 Newton, on rows of every kind it has a path for."""

import numpy as np
import pytest
import torch
from scipy.special import erf

from ibnn.engine.portable import rows as portable
from tests.bank import ERROR_OF_GRADIENT, ERROR_OF_Z

SIGMAS = ["tanh", "hardtanh", "arctan", "erf"]
SMOOTH = ["tanh", "arctan", "erf"]
# what `test_pair_sums` holds the sums of s_0 and s_1 to
ERROR_OF_SUM = {torch.float32: 2e-6, torch.float64: 2e-11}


def s(x: np.ndarray, order: int, sigma: str) -> np.ndarray:
    if sigma == "tanh":
        t = np.tanh(x)
        u = 1 - t * t
        return (t, u, -2 * t * u, u * (6 * t * t - 2))[order]
    if sigma == "hardtanh":
        return (np.clip(x, -1, 1), (abs(x) < 1) * 1.0, 0 * x, 0 * x)[order]
    if sigma == "arctan":
        u = np.pi * x / 2
        q = 1 / (1 + u * u)
        return (
            np.arctan(u) * 2 / np.pi,
            q,
            -np.pi * u * q * q,
            np.pi**2 / 2 * (3 * u * u - 1) * q**3,
        )[order]
    q = np.exp(-np.pi * x * x / 4)
    return (
        erf(np.sqrt(np.pi) * x / 2),
        q,
        -np.pi / 2 * x * q,
        (np.pi**2 / 4 * x * x - np.pi / 2) * q,
    )[order]


def exact_sum(z: np.ndarray, a: np.ndarray | None, order: int, sigma: str) -> np.ndarray:
    terms = s(z[None, :] - z[:, None], order, sigma)
    return (terms if a is None else terms * a).mean(1)


def exact_jacobian(z: np.ndarray, c: float, sigma: str) -> np.ndarray:
    w = s(z[None, :] - z[:, None], 1, sigma) / len(z)
    return np.eye(len(z)) + c * (w - np.diag(w.sum(1)))


def exact_roots(y: np.ndarray, c: float, sigma: str) -> np.ndarray:
    """Newton in float64 with steps halved until the residual falls; converges for c < 1."""
    z = y.mean() + (y - y.mean()) / (1 - c) if c < -y.std() else y.copy()
    r = z + c * exact_sum(z, None, 0, sigma) - y
    for _ in range(200):
        step, size, trial, left = np.linalg.solve(exact_jacobian(z, c, sigma), r), 1.0, z, r
        while size > 1e-6:
            trial = z - size * step
            left = trial + c * exact_sum(trial, None, 0, sigma) - y
            if np.linalg.norm(left) < (1 - 1e-4 * size) * np.linalg.norm(r):
                break
            size /= 2
        if size <= 1e-6:
            break
        z, r = trial, left
        if abs(r).max() < 1e-13 * max(1, abs(y).max()):
            break
    return z


def rows(kind: str, units: int, std: float, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    y = random.normal(size=units)
    if kind == "ties":
        y = np.round(y * 2) / 2
    elif kind == "constant":
        y = np.full(units, 0.7)
    elif kind == "bimodal":
        y = y / 10 + np.sign(y)
    elif kind == "skewed":
        y = np.exp(1.5 * y)
    elif kind == "outlier":
        y[units // 2] = 1e4 / std
    return y * std


def find_roots(y, strength, atol, sigma):
    """z, residual and steps of rows whose slope is 1 already."""
    return portable.find_roots(y, torch.ones_like(atol), strength, atol, sigma)[:3]


def check(cases: list[tuple[np.ndarray, float, float]], sigma: str, dtype: torch.dtype) -> None:
    """Solve rows (y before scaling, lam, slope) as one batch, and compare with dense answers."""
    slope = torch.tensor([float(p) for _, _, p in cases], dtype=torch.float64)
    strength = torch.tensor([lam * p for _, lam, p in cases], dtype=torch.float64).to(dtype)
    y = torch.tensor(np.stack([y * p for y, _, p in cases]), dtype=dtype)
    g = torch.tensor(np.random.default_rng(1).normal(size=y.shape), dtype=dtype)
    atol = (slope * ERROR_OF_Z[dtype] / 10).to(dtype)
    z, residual, _ = find_roots(y, strength, atol, sigma)
    v, relative, dot = portable.solve_jacobian(z, g, strength, sigma)
    for row, (_, lam, p) in enumerate(cases):
        c = strength[row].item()
        given, found = (t[row].double().numpy() for t in (y, z))
        what = f"row {row}: lam {lam:g}, slope {p:g}, std {given.std() / p:.3g}, units {len(given)}"
        error = abs(found - exact_roots(given, c, sigma)) / p / np.maximum(1, abs(given) / p)
        assert error.max() <= ERROR_OF_Z[dtype], what

        # the sums behind the reported residual are right to what z is asked to be right to
        bias = exact_sum(found, None, 0, sigma)
        # z is rounded when it is put down, which J (|J| <= 1 + 2 |c|) shows in the residual
        eps, reach = torch.finfo(dtype).eps, abs(given).max()
        rounding = 4 * eps * (reach + abs(c)) + eps * reach * (1 + 2 * abs(c))
        honest = abs(found + c * bias - given).max()
        assert abs(residual[row].item() - honest) <= ERROR_OF_Z[dtype] * p + rounding, what

        expected = np.linalg.solve(exact_jacobian(found, c, sigma), g[row].double().numpy())
        wide = dtype == torch.float32 and given.std() > 100
        allowed = ERROR_OF_GRADIENT[dtype] * (10 if wide else 1)
        size = np.linalg.norm(expected)
        assert np.linalg.norm(v[row].double().numpy() - expected) <= allowed * size, what
        assert relative[row].item() <= allowed, what
        # |v.B - v'.B'| <= |v - v'| |B'| + |v| |B - B'|, each B_i right to what sums are held to
        floor = np.sqrt(len(given)) * ERROR_OF_SUM[dtype]
        wrong = abs(dot[row].item() - expected @ bias)
        assert wrong <= allowed * size * (np.linalg.norm(bias) + floor) + floor * size, what


def strengths(slope: float) -> list[float]:
    return [-2, -0.5, -0.05, 0.3 / slope, 0.8 / slope, 0.95 / slope]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("units", [1, 2, 3, 60])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_normal_rows_are_solved_to_the_required_accuracy(sigma, units, dtype):
    stds = (0.001, 0.03, 1, 10)
    grid = [(lam, p, std) for p in (1, 10, 100) for lam in strengths(p) for std in stds]
    check(
        [(rows("normal", units, std, seed), lam, p) for seed, (lam, p, std) in enumerate(grid)],
        sigma,
        dtype,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_odd_rows_are_solved_to_the_required_accuracy(sigma, dtype):
    kinds = ["ties", "constant", "bimodal", "skewed", "outlier"]
    grid = [(kind, lam, p) for kind in kinds for p in (1, 10, 100) for lam in (-2, -0.2, 0.95 / p)]
    check([(rows(kind, 80, 0.3), lam, p) for kind, lam, p in grid], sigma, dtype)


def test_rows_near_the_threshold_where_training_passes():
    grid = [(share / 10, std) for share in (0.8, 0.95) for std in (0.003, 0.01, 0.03, 0.05)]
    check([(rows("normal", 200, std), lam, 10) for lam, std in grid], "tanh", torch.float32)


def test_a_tight_crowd_in_a_wide_row_near_the_threshold():
    """Errors of a grid do not average out over units that sit at the same place of their cells."""
    crowd = rows("normal", 200, 0.01)
    crowd[:3] = 5, 30, 60
    check(
        [(crowd + shift, lam, 1) for shift in (0, 0.11) for lam in (0.5, 0.8, 0.95)],
        "tanh",
        torch.float32,
    )


@pytest.mark.parametrize("sigma", SIGMAS)
def test_long_rows(sigma):
    grid = ((1, -0.2), (10, 0.08), (100, -2))
    check([(rows("normal", 500, std), lam, 10) for std, lam in grid], sigma, torch.float32)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_energy_takes_no_sum_over_all_pairs(sigma, dtype, monkeypatch):
    """P_-1 of long rows: the primitives of four sigmas, written out here."""
    monkeypatch.setattr(portable, "direct_sum", None)
    primitive = {
        "tanh": lambda x: np.logaddexp(x, -x) - np.log(2),
        "hardtanh": lambda x: np.where(abs(x) < 1, x * x / 2, abs(x) - 0.5),
        "arctan": lambda x: s(x, 0, "arctan") * x - np.log1p((np.pi * x / 2) ** 2) * 2 / np.pi**2,
        "erf": lambda x: s(x, 0, "erf") * x + (s(x, 1, "erf") - 1) * 2 / np.pi,
    }[sigma]
    for std in (0.3, 10):
        z = torch.tensor(rows("normal", 300, std), dtype=dtype)[None]
        x = z[0].double().numpy()
        terms = primitive(x[None, :] - x[:, None])
        found = portable.pair_sum(z, None, -1, sigma)[0].double().numpy()
        # sums as right as those of s_0, for terms as large as the row is wide
        allowed = ERROR_OF_SUM[dtype] * (1 + terms.max())
        assert abs(found - terms.mean(1)).max() <= allowed


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_pair_sums(sigma, dtype, order):
    # derivatives of order n are about n! times larger, in value and in error
    allowed = ERROR_OF_SUM[dtype] * (1, 1, 3, 10)[order]
    for units, std in ((1, 1), (40, 1), (300, 0.01), (300, 3), (300, 1000), (2500, 1)):
        z = torch.tensor(rows("normal", units, std), dtype=dtype)[None]
        a = torch.tensor(rows("normal", units, 1, seed=3), dtype=dtype)[None]
        for weight in (None, a):
            found = portable.pair_sum(z, weight, order, sigma)[0].double().numpy()
            some = None if weight is None else weight[0].double().numpy()
            assert (
                abs(found - exact_sum(z[0].double().numpy(), some, order, sigma)).max() <= allowed
            )


@pytest.mark.parametrize("sigma", SMOOTH)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_sums_of_a_crowd_with_units_far_away(sigma, dtype, order):
    """Too long for a grid and for a matrix; a crowd has the error of its grid in full."""
    allowed = ERROR_OF_SUM[dtype] * (1, 1, 3, 10)[order]
    y = rows("normal", 2500, 0.05)
    y[::600] += 1e7
    z = torch.tensor(y, dtype=dtype)[None]
    a = torch.tensor(rows("normal", 2500, 1, seed=3), dtype=dtype)
    for weight in (None, a):
        found = portable.pair_sum(z, None if weight is None else weight[None], order, sigma)
        some = None if weight is None else weight.double().numpy()
        expected = exact_sum(z[0].double().numpy(), some, order, sigma)
        assert abs(found[0].double().numpy() - expected).max() <= allowed


@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_row_of_many_units_with_units_far_away(sigma):
    """Too long for a grid and for a matrix: checked by its own equation, term by term."""
    y = rows("normal", 2500, 2)
    y[::600] *= 1e5
    c, y = -2.0, torch.tensor(y, dtype=torch.float32)[None]
    z, _residual, _ = find_roots(y, torch.tensor([c]), torch.tensor([1e-6]), sigma)
    found, given = z[0].double().numpy(), y[0].double().numpy()
    left = found + c * exact_sum(found, None, 0, sigma) - given
    # |J^-1| <= 1 for c < 0: the residual bounds the error
    assert (abs(left) <= 1e-5 * np.maximum(1, abs(given))).all()
    g = torch.randn(1, 2500, generator=torch.Generator().manual_seed(0))
    v, relative, _ = portable.solve_jacobian(z, g, torch.tensor([c]), sigma)
    product = exact_jacobian(found, c, sigma) @ v[0].double().numpy()
    assert np.linalg.norm(product - g[0].double().numpy()) <= 1e-4 * g.norm().item()
    assert relative.item() <= 1e-4


def test_no_strength_leaves_a_row_bitwise_alone():
    y = torch.randn(3, 100)
    z, residual, steps = find_roots(
        y, torch.tensor([0.0, -1.0, 0.0]), torch.full((3,), 1e-6), "tanh"
    )
    assert torch.equal(z[0], y[0])
    assert torch.equal(z[2], y[2])
    assert not torch.equal(z[1], y[1])
    assert residual[0] == 0
    assert steps[0] == 0
    assert steps[2] == 0
    assert steps[1] > 0


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bad_row_leaves_its_neighbours_alone(sigma, dtype):
    random = torch.Generator().manual_seed(0)
    y = torch.randn(8, 200, generator=random, dtype=dtype)
    y[1, 5], y[2, 6], y[3, 7], y[5], y[6] = torch.nan, torch.inf, 1e6, y[5] * 100, y[6] * 0.01
    strength = torch.tensor([-2, -2, 0.5, -2, 0.9, 0.3, -20, -0.5], dtype=dtype)
    atol = torch.full_like(strength, 1e-6 if dtype == torch.float32 else 1e-12)
    g = torch.randn(8, 200, generator=random, dtype=dtype)
    z, residual, _steps = find_roots(y, strength, atol, sigma)
    bad = torch.tensor([False, True, True, False, False, False, False, False])
    assert z[bad].isnan().all()
    assert residual[bad].isinf().all()
    assert z[~bad].isfinite().all()
    assert residual[~bad].isfinite().all()
    v, relative, _dot = portable.solve_jacobian(z, g, strength, sigma)
    assert v[bad].isnan().all()
    assert relative[bad].isinf().all()
    assert v[~bad].isfinite().all()
    close = 1e-6 if dtype == torch.float32 else 1e-12
    for row in (~bad).nonzero().squeeze(1).tolist():
        one = slice(row, row + 1)
        alone, _alone_residual, _ = find_roots(y[one], strength[one], atol[one], sigma)
        size = y[one].abs().clamp(min=1)
        assert ((alone - z[one]).abs() <= close * size).all()
        alone_v, _, _alone_dot = portable.solve_jacobian(z[one], g[one], strength[one], sigma)
        assert (alone_v - v[one]).norm() <= 10 * close * v[one].norm()


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("units", [5, 300, 3000])
def test_enormous_units_are_survived(sigma, units):
    y = torch.randn(2, units, generator=torch.Generator().manual_seed(0))
    y[0, 1], y[0, 2], y[1, 3] = 1e38, -1e38, 3e38
    z, residual, _ = find_roots(y, torch.tensor([-2.0, 0.5]), torch.full((2,), 1e-6), sigma)
    assert z.isfinite().all()
    assert residual.isfinite().all()
    # the others feel them as units at infinity
    assert ((z - y).abs()[y.abs() < 100] <= 2 + 1e-5).all()
    v, _, _ = portable.solve_jacobian(z, torch.ones_like(z), torch.tensor([-2.0, 0.5]), sigma)
    assert ((v - 1).abs() <= 1e-4).all()  # J 1 = 1


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_above_the_threshold_the_residual_is_honest(sigma, dtype):
    for units in (10, 300):
        for c in (1.2, 3.0, 10.0, 50.0):
            for std in (0.01, 1):
                y = torch.tensor(rows("normal", units, std), dtype=dtype)[None]
                strength = torch.tensor([c], dtype=dtype)
                z, residual, _ = find_roots(y, strength, torch.tensor([1e-5], dtype=dtype), sigma)
                found = z[0].double().numpy()
                left = abs(
                    found + c * exact_sum(found, None, 0, sigma) - y[0].double().numpy()
                ).max()
                assert abs(left - residual.item()) <= 1e-5 * (1 + c) + 1e-3 * left
                v, _, _ = portable.solve_jacobian(z, torch.ones_like(z), strength, sigma)
                assert v.isfinite().all()


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_empty_batches(shape):
    y, strength = torch.zeros(shape), torch.full((shape[0],), -1.0)
    z, residual, steps = find_roots(y, strength, strength.abs(), "tanh")
    assert z.shape == shape
    assert residual.shape == strength.shape
    assert steps.dtype == torch.int32
    v, _, dot = portable.solve_jacobian(z, y, strength, "tanh")
    assert v.shape == shape
    assert dot.shape == strength.shape
    assert portable.pair_sum(y, None, 0, "tanh").shape == shape


def test_a_row_with_heavy_tails_and_strong_coupling_takes_few_steps():
    """From y, 80 away from z, it took 26 to 31; from the limit of steep sigmas 7."""
    random = np.random.default_rng(3)
    y = torch.tensor(3 * random.normal(size=3000) / random.random(3000))[None]
    strength, atol = torch.tensor([-80.0]).double(), torch.tensor([1e-10]).double()
    z, residual, steps = find_roots(y, strength, atol, "tanh")
    assert residual.item() <= 1e-9
    assert steps.item() <= 12
    found = z[0].numpy()
    left = found - 80 * exact_sum(found, None, 0, "tanh") - y[0].numpy()
    assert (abs(left) <= 1e-10 * np.maximum(1, abs(y[0].numpy()))).all()
