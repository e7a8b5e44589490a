"""Above the threshold the compiled engine descends to a minimum by itself, in a few steps."""

import numpy as np
import pytest
import torch

import ibnn
from ibnn._core import above_threshold, backward, forward
from ibnn.engine.native import calls

SLOPE, T = 10.0, 0.1
PROMISED = {torch.float32: 1e-5, torch.float64: 1e-10}
GRADIENT = {torch.float32: 1e-4, torch.float64: 1e-8}


def normal(rows: int, units: int, std: float, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(units)
    return (std * torch.randn(rows, units, generator=generator)).to(dtype)


def bias_of(z: torch.Tensor) -> torch.Tensor:
    return torch.tanh(SLOPE * (z.unsqueeze(-2) - z.unsqueeze(-1))).mean(-1)


def jacobian_of(z: torch.Tensor, lam: float) -> torch.Tensor:
    gaps = SLOPE * (z.unsqueeze(-2) - z.unsqueeze(-1))
    pairs = lam * SLOPE * (1 - torch.tanh(gaps) ** 2) / z.shape[-1]
    return pairs - torch.diag_embed(pairs.sum(-1)) + torch.eye(z.shape[-1], dtype=z.dtype)


@pytest.fixture
def alone(monkeypatch):
    """The engine, left to itself: nothing else may help to solve a row."""

    def refuse(*_):
        raise AssertionError("a row was left to the steps of torch")

    monkeypatch.setattr(above_threshold, "descend", refuse)
    monkeypatch.setattr(forward, "fallback_solve", refuse)
    monkeypatch.setattr(backward, "fallback_adjoint", refuse)


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
@pytest.mark.parametrize("times", [1.01, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("units", [2, 3, 10, 24, 33])
def test_short_rows_come_to_where_plain_descent_leads(units, times, dtype, alone):
    y, lam = normal(24, units, 0.1, dtype), times * T
    solution = ibnn.solve(y, lam, SLOPE, engine="native")
    z = solution.value.double()
    assert solution.converged.all()
    step = torch.linalg.solve(
        jacobian_of(z, lam), (z + lam * bias_of(z) - y.double()).unsqueeze(-1)
    )
    assert step.abs().max() <= PROMISED[dtype]
    assert torch.linalg.eigvalsh(jacobian_of(z, lam)).min() > 0
    plain, change = y.double(), torch.tensor(1.0)
    while change > 1e-8:
        change = (plain + lam * bias_of(plain) - y.double()).abs().max()
        plain = y.double() - lam * bias_of(plain)
    # other minima are farther away; J may be nearly singular, and the slowest rows be on their way
    assert (z - plain).abs().max() <= 1e-3
    assert solution.unique.all()


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
@pytest.mark.parametrize("std", [0.1, 0.3, 1.0])
@pytest.mark.parametrize(("units", "most"), [(64, 12), (784, 8), (1024, 8)])
def test_long_rows_take_a_few_steps(units, most, std, dtype, alone):
    for times in (1.01, 1.5, 3.0):
        y = normal(9, units, std, dtype)
        solution = ibnn.solve(y, times * T, SLOPE, engine="native")
        z = solution.value.double()
        assert solution.converged.all()
        assert solution.unique.all()
        assert solution.steps.max() <= most
        left = (z + times * T * bias_of(z) - y.double()).abs().amax(-1)
        assert left.max() <= 2 * PROMISED[dtype] * max(1, float(y.abs().max()))


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
@pytest.mark.parametrize("units", [2, 3, 10, 30, 64, 300])
def test_gradients_are_those_of_j(units, dtype, alone):
    for times in (1.01, 1.5, 3.0):
        y, lam = normal(11, units, 0.2, dtype).requires_grad_(), torch.tensor(times * T)
        lam = lam.to(dtype).requires_grad_()
        g = normal(11, units, 1.0, dtype).flip(0)
        z = ibnn.implicit_bias(y, lam, SLOPE, engine="native")
        of_y, of_lam = torch.autograd.grad(z, (y, lam), g)
        at = z.detach().double()
        expected = torch.linalg.solve(jacobian_of(at, lam.item()), g.double().unsqueeze(-1))
        expected = expected.squeeze(-1)
        error = (of_y.double() - expected).norm(dim=-1)
        assert (error <= GRADIENT[dtype] * expected.norm(dim=-1)).all()
        terms = expected * bias_of(at)
        assert abs(of_lam + terms.sum()) <= GRADIENT[dtype] * terms.abs().sum()


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
@pytest.mark.parametrize("units", [12, 40])
def test_equal_units_stay_equal(units, dtype):
    y = normal(20, units, 0.2, dtype)
    y[:, : units // 2] = y[:, :1]
    solution = ibnn.solve(y, 1.5 * T, SLOPE, engine="native")
    z = solution.value
    assert solution.converged.all()
    assert torch.equal(z[:, 1 : units // 2], z[:, :1].expand(-1, units // 2 - 1))
    residual = (z.double() + 1.5 * T * bias_of(z.double()) - y.double()).abs().max()
    assert residual <= PROMISED[dtype]
    assert (ibnn.solve(y[:, :1].expand(-1, units).contiguous(), 3 * T).value == y[:, :1]).all()


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
def test_rows_depend_on_themselves_alone(dtype):
    """Rows of every strength, some of them not finite, in one batch and each by itself."""
    y = normal(23, 40, 0.3, dtype)
    y[3, 5], y[11, 0] = torch.nan, torch.inf
    strength = torch.linspace(-2, 3, 23, dtype=torch.float64)
    given = torch.full((23,), SLOPE), torch.full((23,), 2e-5), 1e-5, "tanh"
    z, residual, steps, solved = calls.solve_rows(y, strength, *given)
    v = calls.solve_jacobian(z, y, strength, "tanh")[0]
    for k in range(23):
        row = slice(k, k + 1)
        more = (*(t[row] for t in given[:2]), *given[2:])
        found = calls.solve_rows(y[row], strength[row], *more)
        assert torch.equal(found[0].nan_to_num(7), z[row].nan_to_num(7))
        assert found[1:] == (residual[row], steps[row], solved[row])
        again = calls.solve_jacobian(z[row], y[row], strength[row], "tanh")[0]
        assert torch.equal(again.nan_to_num(7), v[row].nan_to_num(7))
    assert solved.tolist() == [k not in (3, 11) for k in range(23)]


def test_channels_are_coupled_where_they_lie():
    y = normal(4, 5 * 6 * 6, 0.2, torch.float32).reshape(4, 5, 6, 6)
    channels = ibnn.implicit_bias(y, 2 * T, SLOPE, coupling=ibnn.Uniform(1))
    rows = ibnn.implicit_bias(y.movedim(1, -1).contiguous(), 2 * T, SLOPE)
    assert torch.equal(channels.movedim(1, -1), rows)


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
def test_a_layer_says_of_which_rows_another_minimum_is_near(dtype):
    y = normal(3, 8, 0.2, dtype)
    y[1] = 0
    with pytest.warns(ibnn.ThresholdWarning):
        layer = ibnn.ImplicitBias(3 * T, bounded=False, coupling=ibnn.Uniform(-1)).to(dtype)
    z = layer(y)
    least = torch.linalg.eigvalsh(jacobian_of(z.detach().double(), 3 * T)).amin(-1)
    assert (least > 1e-3).tolist() == [True, False, True]
    np.testing.assert_allclose(layer.last_solve.unique, 2 / 3, rtol=1e-6)
    assert ibnn.solve(y, 3 * T).unique.tolist() == [True, False, True]


@pytest.mark.parametrize("engine", ["native", "portable"])
def test_a_row_of_one_unit_has_one_solution_for_every_lam(engine):
    with pytest.warns(ibnn.ThresholdWarning):
        layer = ibnn.ImplicitBias(3 * T, bounded=False, coupling=ibnn.Uniform(-1), engine=engine)
    y = torch.tensor([[0.3], [-2.0], [0.0]])
    assert torch.equal(layer(y), y)
    assert layer.last_solve.unique == 1


def test_energies_never_rise():
    """At the minimum it is at most that at y, however far above the threshold."""
    for units in (3, 40):
        for std in (1e-3, 0.1, 1.0):
            y = normal(30, units, std, torch.float64)
            for lam in (1.01 * T, 3 * T, 30 * T):
                z = ibnn.solve(y, lam, SLOPE, on_failure="ignore").value
                falls = ibnn.energy(z, y, lam, SLOPE) - ibnn.energy(y, y, lam, SLOPE)
                assert (falls <= 1e-12).all()


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
def test_a_gradient_that_running_sums_cannot_give_is_found_in_another_way(dtype, monkeypatch):
    """A crowd whose units are all but free to part: J is nearly singular. Rows of floats are
    solved in doubles by the engine itself, rows of doubles by other sums."""
    retried, solve = [], backward.fallback_adjoint
    monkeypatch.setattr(
        backward, "fallback_adjoint", lambda *given: retried.append(1) or solve(*given)
    )
    y = torch.cat([torch.zeros(2, 133), torch.linspace(2, 200, 267).expand(2, -1)], 1).to(dtype)
    y[1] = normal(1, 400, 1.0, dtype)
    y.requires_grad_()
    g = normal(2, 400, 1.0, dtype)
    z = ibnn.implicit_bias(y, 3 * T, SLOPE, engine="native")
    (found,) = torch.autograd.grad(z, y, g)
    jacobian = jacobian_of(z.detach().double(), 3 * T)
    assert 0 < torch.linalg.eigvalsh(jacobian[0]).min() < 0.01
    expected = torch.linalg.solve(jacobian, g.double().unsqueeze(-1)).squeeze(-1)
    error = (found.double() - expected).norm(dim=-1)
    assert (error <= GRADIENT[dtype] * expected.norm(dim=-1)).all()
    assert bool(retried) == (dtype == torch.float64)


def image_rows(count: int, units: int, dtype: torch.dtype) -> torch.Tensor:
    """A background of equal units, and others that lie beside it, closer and closer."""
    generator = torch.Generator().manual_seed(units)
    y = torch.full((count, units), 0.17)
    for row in y:
        inside = torch.randperm(units, generator=generator)[: units - units // 3]
        depth = torch.randn(len(inside), generator=generator)
        row[inside] += 0.25 * depth * depth.abs().clamp(max=1)
    return y.to(dtype)


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
@pytest.mark.parametrize("times", [1.3, 2.0, 2.5])
@pytest.mark.parametrize("units", [60, 300, 784])
def test_images_come_to_where_plain_descent_leads_in_few_steps(units, times, dtype, alone):
    """Units between two crowds slide slowly: plain steps take up to thousands here."""
    y, lam = image_rows(12, units, dtype), times * T
    solution = ibnn.solve(y, lam, SLOPE, engine="native")
    assert solution.converged.all()
    assert solution.steps.max() <= 60
    assert solution.steps.double().mean() <= 20
    z, background = solution.value.double(), y == y.mode(-1, keepdim=True).values
    assert all(len(row[equal].unique()) == 1 for row, equal in zip(z, background, strict=True))
    target = y[:2].double()
    plain, change, steps = target, torch.tensor(1.0), 0
    while change > 1e-7 and steps < 2000:
        after = target - lam * bias_of(plain)
        change, plain, steps = (after - plain).abs().max(), after, steps + 1
    assert steps < 2000
    assert (z[:2] - plain).abs().max() <= 1e-3


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
@pytest.mark.parametrize("units", [20, 300, 784])
def test_gradients_of_images_are_those_of_j(units, dtype, alone, monkeypatch):
    """Within a crowd so dense that it would part if its units differed J has negative eigenvalues.
    That is reported, and solved all the same: the gradient by weights, which move a crowd as a
    whole, needs its sums alone."""
    reported, indefinite = [], 0
    monkeypatch.setattr(
        backward.solution,
        "report",
        lambda what, failed, *_: reported.append((what, int(failed.sum()))),
    )
    for times in (1.3, 2.0, 2.9):
        y, lam = image_rows(10, units, dtype).requires_grad_(), times * T
        g = normal(10, units, 1.0, dtype)
        z = ibnn.implicit_bias(y, lam, SLOPE, engine="native")
        (found,) = torch.autograd.grad(z, y, g)
        jacobian = jacobian_of(z.detach().double(), lam)
        indefinite += int((torch.linalg.eigvalsh(jacobian)[:, 0] < 0).sum())
        expected = torch.linalg.solve(jacobian, g.double().unsqueeze(-1)).squeeze(-1)
        error = (found.double() - expected).norm(dim=-1)
        assert (error <= GRADIENT[dtype] * expected.norm(dim=-1)).all()
    assert indefinite
    assert sum(count for what, count in reported if "backward" in what) == indefinite


def test_a_saddle_is_called_one():
    y, lam = image_rows(10, 300, torch.float32).requires_grad_(), 2.9 * T
    z = ibnn.implicit_bias(y, lam, SLOPE, engine="native")
    saddles = (torch.linalg.eigvalsh(jacobian_of(z.detach().double(), lam))[:, 0] < 0).sum()
    told = rf"backward: {saddles} of 10 rows are at a saddle of the energy \(gradients"
    with pytest.warns(ibnn.ConvergenceWarning, match=told):
        z.backward(normal(10, 300, 1.0, torch.float32))


def test_rows_of_nearly_equal_units_are_judged_by_how_far_these_part():
    """Units 1e-14 apart part by up to 1. The steps of the engine run out on most of these rows, and
    what the solver then finds is as good as any other row's."""
    y, lam = normal(8, 20, 1e-14, torch.float64), 3 * T
    solution = ibnn.solve(y, lam, SLOPE, on_failure="ignore")
    z = solution.value
    assert (z.amax(-1) - z.amin(-1) > 0.1).all()
    # a twentieth of the accuracy asked for, since nothing is known of J
    solved = (z + lam * bias_of(z) - y).abs().amax(-1) <= 0.05 * 1e-12
    assert (solved & (solution.steps > 200)).any()  # by the solver
    assert torch.equal(solution.converged, solved)
