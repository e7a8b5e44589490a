"""Rows that the compiled engine solves several at a time, a row in each lane: by all pairs of their
units, by running sums over sorted units, or on nodes."""

import numpy as np
import pytest
import torch

import ibnn
from ibnn.engine.native import calls as native
from ibnn.engine.native import loader
from tests import bank, oracle

pytestmark = pytest.mark.skipif(not loader.available(), reason="no C++ compiler")

SHORT = (2, 3, 7, 16, 33)
LONG = (48, 65, 100, 256)
# what the library asks of the engine: accuracy of z before the slope, and as a share of the range
ATOL = {torch.float32: 2e-6, torch.float64: 1e-11}
RESOLUTION = {torch.float32: 2e-5, torch.float64: 1e-9}
GRADIENT = {torch.float32: 1e-4, torch.float64: 1e-8}


def rows(units: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The bank's kinds of rows, and those a normal guess is worst for."""
    drawn = bank.rows(units, rng)
    drawn["one unit at 1e3"] = 0.1 * drawn.pop("one unit at 1e4")  # the oracle can tell its digits
    drawn["heavy tails"] = rng.standard_t(2, units)
    drawn["crowd"] = np.where(rng.random(units) < 0.8, 0.01, 1) * rng.standard_normal(units)
    drawn["far from 0"] = 50 + 0.3 * rng.standard_normal(units)
    drawn["nearly equal"] = 0.7 + 1e-5 * rng.standard_normal(units)
    drawn["after a ReLU"] = np.maximum(0, rng.standard_normal(units))
    return {kind: bank.exact(y) for kind, y in drawn.items()}


def solve(y, lam, slope, sigma, dtype):
    """z, residual, steps, solved; one lam and slope for each row."""
    y = torch.as_tensor(y).to(dtype)
    lam, slope = (torch.as_tensor(x, dtype=torch.float64).expand(len(y)) for x in (lam, slope))
    return native.solve_rows(y, lam * slope, slope, ATOL[dtype] * slope, RESOLUTION[dtype], sigma)


def cases(units: int, slope: float, lams) -> list[tuple[str, np.ndarray, float]]:
    rng = np.random.default_rng([units, int(slope), 1])
    return [(kind, y, lam) for kind, y in rows(units, rng).items() for lam in lams]


CASES = [
    *((units, "tanh", dtype) for units in SHORT + LONG for dtype in ATOL),
    # on nodes where that pays, in lengths that fill no whole registers
    *((units, "tanh", torch.float32) for units in (117, 131, 400)),
    *((units, "hardtanh", dtype) for units in (2, 7, 48) for dtype in ATOL),
    # these two are solved in lanes in float32 only
    *((units, sigma, torch.float32) for units in (2, 7, 48) for sigma in ("arctan", "erf")),
]


@pytest.mark.parametrize(("units", "sigma", "dtype"), CASES)
def test_solutions_and_gradients_are_those_of_the_oracle(units, sigma, dtype):
    precision = str(dtype).removeprefix("torch.")
    rng = np.random.default_rng(units)
    for slope in bank.SLOPES if units < 100 else bank.SLOPES[1:]:
        lams = (-2.0, bank.exact(-0.1), bank.exact(0.5 / slope), bank.exact(0.95 / slope))
        asked = cases(units, slope, lams)
        y = np.stack([row for _, row, _ in asked])
        lam = np.array([lam for *_, lam in asked])
        z, _, _, solved = solve(y, lam, slope, sigma, dtype)
        assert solved.all()
        scaled = z * slope
        g = torch.as_tensor(bank.exact(rng.standard_normal(y.shape))).to(dtype)
        v, error, dot = native.solve_jacobian(scaled, g, torch.as_tensor(lam * slope), sigma)
        assert (error <= GRADIENT[dtype]).all()
        for i, (kind, row, strength) in enumerate(asked):
            exact = oracle.solve_row(row, strength, slope, None, sigma)
            error = np.abs(z[i].double().numpy() - exact)
            # z cannot be told better than to the rounding of y and of itself
            rounding = 2 * torch.finfo(dtype).eps * np.abs(row)
            assert (error <= bank.allowed_error(row, precision) + rounding).all(), (kind, strength)
            at = scaled[i].double().numpy()
            expected, by_lam, _ = oracle.gradient_row(
                at, strength * slope, 1.0, g[i].double().numpy(), None, sigma, at
            )
            size = np.linalg.norm(expected)
            wrong = np.linalg.norm(v[i].double().numpy() - expected)
            assert wrong <= GRADIENT[dtype] * size, (kind, strength)
            # B is at most 1 in size
            bound = GRADIENT[dtype] * size * units**0.5
            assert abs(float(dot[i]) + by_lam) <= bound, (kind, strength)


@pytest.mark.parametrize("units", SHORT + LONG)
def test_strong_coupling_is_solved_or_reported(units):
    """From lam = -5 to 0.999 of the threshold, at slopes up to 1000."""
    for slope in (1.0, 10.0, 100.0, 1000.0):
        asked = cases(units, slope, (-5.0, bank.exact(0.99 / slope), bank.exact(0.999 / slope)))
        y = np.stack([row for _, row, _ in asked])
        lam = np.array([lam for *_, lam in asked])
        z, residual, steps, solved = solve(y, lam, slope, "tanh", torch.float32)
        assert solved.all()
        assert steps.max() <= 60 + 100  # in lanes, and then for itself in double
        wide = z.double() * slope
        bias = native.pair_sum(wide, None, 0, "tanh")
        strength = torch.as_tensor(lam * slope)[:, None]
        true = (wide - torch.as_tensor(y) * slope + strength * bias).abs()
        # rounding of z and y seen through J, and of the sums
        rounding = 2e-7 * ((1 + strength.abs()) * wide.abs().amax(1, keepdim=True) + strength.abs())
        # nodes, which a few of the longer rows are left to, look at some of the units only
        asked_for = 0.0 if units <= 96 else ATOL[torch.float32] * slope
        assert (true <= residual.double()[:, None] + rounding + asked_for).all()


@pytest.mark.parametrize("units", [2, 5, 16, 40, 100, 131, 300, 1000])
def test_a_row_is_the_same_in_any_company(units):
    """Bit by bit: alone, among others, and in another lane."""
    rng = np.random.default_rng(units)
    y = torch.as_tensor(np.stack(list(rows(units, rng).values()))).float()
    lam = torch.linspace(-2, 0.095, len(y))
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))

    def both(order):
        z, residual, steps, _ = solve(y[order], lam[order], 10.0, "tanh", torch.float32)
        v, left, dot = native.solve_jacobian(z * 10, g[order], lam[order] * 10, "tanh")
        return z, residual, steps, v, left, dot

    together = both(torch.arange(len(y)))
    shuffled = torch.randperm(len(y), generator=torch.Generator().manual_seed(1))
    for mine, other in zip(together, both(shuffled), strict=True):
        assert torch.equal(mine[shuffled], other)
    for i in range(len(y)):
        for mine, alone in zip(together, both(torch.tensor([i])), strict=True):
            assert torch.equal(mine[i], alone[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bad_row_leaves_its_neighbors_alone(dtype):
    y = torch.randn(16, 9, generator=torch.Generator().manual_seed(0), dtype=dtype)
    clean = solve(y, -0.5, 10.0, "tanh", dtype)
    spoilt = y.clone()
    spoilt[3, 2], spoilt[7, 0], spoilt[8, 8] = float("nan"), float("inf"), -float("inf")
    z, residual, _, solved = solve(spoilt, -0.5, 10.0, "tanh", dtype)
    bad = torch.tensor([3, 7, 8])
    good = torch.tensor([i for i in range(16) if i not in bad])
    assert z[bad].isnan().all()
    assert residual[bad].isinf().all()
    assert not solved[bad].any()
    assert torch.equal(z[good], clean[0][good])
    strength = torch.full((16,), -5.0)
    strength[5] = float("nan")
    v, error, dot = native.solve_jacobian(clean[0], spoilt, strength, "tanh")
    bad = torch.tensor([3, 5, 7, 8])
    assert v[bad].isnan().all()
    assert error[bad].isinf().all()
    assert dot[bad].isnan().all()
    good = torch.tensor([i for i in range(16) if i not in bad])
    assert torch.equal(
        v[good], native.solve_jacobian(clean[0], y, torch.full((16,), -5.0), "tanh")[0][good]
    )


def test_the_error_of_the_adjoint_is_measured():
    """It follows from the residual of the v that comes back, not from that of a recurrence."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(64, 20, generator=generator) * torch.logspace(-1, 1.5, 64)[:, None]
    g = torch.randn(z.shape, generator=generator)
    c = torch.cat([torch.linspace(-200, 0.97, 32), torch.linspace(-2, 0.97, 32)])
    v, error, _ = native.solve_jacobian(z, g, c, "tanh")
    seen = 0
    for i in range(64):
        at = z[i].double().numpy()
        exact, *_ = oracle.gradient_row(at, float(c[i]), 1.0, g[i].double().numpy(), z=at)
        true = np.linalg.norm(v[i].double().numpy() - exact) / np.linalg.norm(exact)
        # slopes are rounded to 1e-7, and J, which has them times c, is what the residual is of
        rounding = 2e-7 * (1 + abs(float(c[i])))
        assert true <= 2 * float(error[i]) + rounding
        assert error[i] <= 1e-4
        seen += true > rounding
    assert seen >= 3  # or an error of 0 would do as well


@pytest.mark.parametrize("slope", [0.4319, 0.03962])
def test_a_crowd_at_one_end_sends_the_other_end_far(slope):
    """z is wider than y by up to 1 / (1 - c), and all of that may be on one side."""
    rng = np.random.default_rng(0)
    for lam in (0.44 / slope, 0.54 / slope):
        for width in np.linspace(0.3, 1.0, 15):
            y = np.where(rng.random(33) < 0.95, 1e-3, 1.0) * rng.standard_normal(33)
            y[0] = 2.0
            y = torch.tensor(y * width / np.ptp(y) / slope, dtype=torch.float32)
            z = ibnn.implicit_bias(y, lam, slope, engine="native", on_failure="raise").double()
            exact = oracle.solve_row(y.double().numpy(), float(np.float32(lam)), slope)
            allowed = 1e-5 * np.maximum(1, np.abs(y.numpy()))
            assert (np.abs(z.numpy() - exact) <= allowed).all()


@pytest.mark.parametrize("units", [131, 784])
def test_denormal_numbers_are_kept_by_others(units):
    """Nodes flush them while they are at work, and in their own thread."""
    y = torch.randn(16, units, generator=torch.Generator().manual_seed(0))
    z, *_ = solve(0.1 * y, -0.1, 10.0, "tanh", torch.float32)
    native.solve_jacobian(10 * z, y, torch.full((16,), -1.0), "tanh")
    assert float(torch.tensor(1e-40) * torch.tensor(1.0)) > 0


def test_weights_of_neighbors_stay_when_a_row_needs_closer_nodes():
    """Rows of one pack: a crowd, whose nodes are placed twice, among normal rows."""
    generator = torch.Generator().manual_seed(0)
    y = 0.3 * torch.randn(16, 1000, generator=generator)
    y[5] = torch.where(torch.rand(1000, generator=generator) < 0.8, 0.01, 1.0) * y[5]
    alone, *_ = solve(torch.cat([y[:5], y[6:]]), 0.09, 10.0, "tanh", torch.float32)
    z, _, _, solved = solve(y, 0.09, 10.0, "tanh", torch.float32)
    assert solved.all()
    assert torch.equal(torch.cat([z[:5], z[6:]]), alone)
    for i in (4, 5, 6):
        row = y[i].double().numpy()
        exact = oracle.solve_row(row, 0.09, 10.0)
        assert np.abs(z[i].double().numpy() - exact).max() <= 1e-5


def test_the_residual_of_wide_rows_is_seen_too():
    """e^(2 z) does not fit in a float beyond a range of 80: other sums judge these rows."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(8, 1000, generator=generator) * torch.logspace(-1, 0.5, 8)[:, None]
    z, residual, _, solved = solve(y, -0.1, 10.0, "tanh", torch.float32)
    assert solved.all()
    wide = z.double() * 10
    true = wide - 10 * y.double() - native.pair_sum(wide, None, 0, "tanh")
    assert (residual > 0).all()
    # a few units are looked at, and rounding is not counted
    assert (true.abs().amax(1) <= 4 * residual + 4e-7 * wide.abs().amax(1)).all()
