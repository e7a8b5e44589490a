"""A sigma that is not monotonic: solved, and certified by nobody."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch import nn

import ibnn
from ibnn import engine
from ibnn.coupling.sums import UNIFORM
from ibnn.engine.native import loader
from ibnn.lab.attacks import evaluate
from ibnn.sigma import PEAKED, Peaked

compiled = pytest.mark.skipif(not loader.available(), reason="no C++ compiler")
SLOPE = 10.0


def test_it_rises_peaks_and_falls_and_is_tanh_for_small_a():
    x = torch.linspace(0, 8, 801, dtype=torch.float64)
    value = Peaked(0.5).value(x)
    peak = int(value.argmax())
    assert 0 < peak < 800
    assert (value[: peak + 1].diff() > 0).all()
    assert (value[peak:].diff() < 0).all()
    # 1 - exp(-(a x)^2 / 2) <= (a x)^2 / 2
    gap = (Peaked(1e-3).value(x) - torch.tanh(x)).abs()
    assert (gap <= (1e-3 * x) ** 2 / 2).all()


@pytest.mark.parametrize("a", [0.1, 0.5, 2.0])
def test_its_derivatives_and_primitive_belong_together(a):
    sigma = Peaked(a)
    x = torch.linspace(-9, 9, 181, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(sigma.value(x).sum(), x)
    torch.testing.assert_close(sigma.derivative(x.detach(), 1), slope)
    (value,) = torch.autograd.grad(sigma.primitive(x).sum(), x)
    inside = x.abs() < 8 / a  # beyond, the primitive is constant to 1e-14
    torch.testing.assert_close(value[inside], sigma.value(x)[inside].detach(), atol=1e-10, rtol=0)
    at = torch.tensor([0.003, 0.7, 3.1, 8.9], dtype=torch.float64)

    def number(u: float) -> float:
        return sigma.value(torch.tensor(u, dtype=torch.float64)).item()

    exact = [quad(number, 0, v, epsabs=1e-13)[0] for v in at.tolist()]
    expected = torch.tensor(exact, dtype=torch.float64)
    torch.testing.assert_close(sigma.primitive(at), expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(sigma.primitive(-at), expected, atol=1e-12, rtol=0)
    single = sigma.primitive(at.float()).double()
    torch.testing.assert_close(single, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("lam", [-0.2, 0.05])
def test_its_equation_is_solved(lam):
    y = torch.randn(4, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = ibnn.implicit_bias(y, lam, 10.0, sigma="peaked")
    assert ibnn.residual(z, y, lam, 10.0, sigma="peaked").abs().max() < 1e-9


def test_nothing_is_proven_about_it():
    with pytest.raises(ValueError, match="sigma peaked is not certified: no threshold is proven"):
        ibnn.uniqueness_threshold(10.0, sigma="peaked")
    with pytest.raises(ValueError, match="sigma peaked is not certified: learn lam with bounded"):
        ibnn.Linear(3, 3, sigma="peaked")
    with pytest.raises(ValueError, match="a is 0, expected a positive number"):
        Peaked(0)


def test_an_attacked_network_says_that_it_has_no_certificate():
    torch.manual_seed(0)
    layer = ibnn.Linear(16, 6, lam=-0.1, learn_lam=False, sigma="peaked")
    model = nn.Sequential(nn.Flatten(), layer, nn.ReLU(), nn.Linear(6, 2))
    x, y = torch.rand(4, 1, 4, 4), torch.arange(4) % 2
    found = evaluate(model, x, y, eps=0.05, attacks="pgd", quick=True, checks=False)
    assert "no bound is known for the uncertified sigma peaked" in found.text()


def differences(z: np.ndarray) -> np.ndarray:
    return SLOPE * (z[None, :] - z[:, None])


def error_and_eigenvalue(z: np.ndarray, y: np.ndarray, lam: float) -> tuple[float, float]:
    """How far z is from the solution next to it, and the least eigenvalue of J there."""
    moved = 0.0
    for again in (False, True):  # steps of Newton from something that is nearly solved
        x = differences(z)
        t, fall = np.tanh(x), np.exp(-(x**2) / 8)
        jacobian = lam * SLOPE / len(z) * (1 - t**2 - x * t / 4) * fall
        jacobian += np.diag(1 - jacobian.sum(1))
        step = np.linalg.solve(jacobian, z - y + lam * (t * fall).mean(1))
        moved = moved if again else float(np.abs(step).max())
        z = z - step
    return moved, float(np.linalg.eigvalsh(jacobian)[0])


def energy(z: np.ndarray, y: np.ndarray, lam: float) -> float:
    at = np.linspace(0, 60, 600_001)
    value = np.tanh(at) * np.exp(-(at**2) / 8)
    primitive = np.concatenate([[0], np.cumsum(value[1:] + value[:-1]) * (at[1] / 2)])
    pairs = np.interp(np.abs(differences(z)), at, primitive).mean(1).sum() / SLOPE
    return float(((z - y) ** 2).sum() - lam * pairs) / 2


@compiled
@pytest.mark.parametrize("lam", [-1.0, -0.3, 0.05, 0.11, 0.26])
@pytest.mark.parametrize("std", [0.02, 0.2, 1.0])
def test_the_compiled_engine_goes_down_to_a_minimum(lam, std):
    rows = std * np.random.default_rng(17).standard_normal((6, 40))
    for dtype, allowed in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        y = torch.from_numpy(rows).to(dtype)
        found = ibnn.solve(y, lam, SLOPE, sigma="peaked", engine="native", on_failure="raise")
        assert found.converged.all()
        for z, start in zip(found.value.double().numpy(), y.double().numpy(), strict=True):
            error, eigenvalue = error_and_eigenvalue(z, start, lam)
            assert error <= allowed * max(1, np.abs(start).max())
            assert eigenvalue > 0
            # the quadrature of the energy is right to 1e-9 or so
            assert energy(z, start, lam) <= energy(start, start, lam) + 1e-8


@compiled
@pytest.mark.parametrize("lam", [-0.3, 0.05, 0.2])
def test_its_gradients_are_those_of_the_dense_jacobian(lam):
    rng = np.random.default_rng(5)
    start, g = 0.3 * rng.standard_normal((2, 24)), rng.standard_normal((2, 24))
    for dtype, allowed in ((torch.float32, 1e-4), (torch.float64, 1e-8)):
        y = torch.from_numpy(start).to(dtype).requires_grad_()
        strength = torch.tensor(lam, dtype=dtype, requires_grad=True)
        z = ibnn.implicit_bias(y, strength, SLOPE, sigma="peaked", on_failure="raise")
        z.backward(torch.from_numpy(g).to(dtype))
        expected, by_lam = np.empty_like(g), 0.0
        for i, row in enumerate(z.detach().double().numpy()):
            x = differences(row)
            t, fall = np.tanh(x), np.exp(-(x**2) / 8)
            jacobian = lam * SLOPE / len(row) * (1 - t**2 - x * t / 4) * fall
            jacobian += np.diag(1 - jacobian.sum(1))
            expected[i] = np.linalg.solve(jacobian, g[i])
            by_lam -= expected[i] @ (t * fall).mean(1)
        assert y.grad is not None
        assert strength.grad is not None
        error = np.linalg.norm(y.grad.double().numpy() - expected) / np.linalg.norm(expected)
        assert error <= allowed
        assert abs(float(strength.grad) - by_lam) <= allowed * np.linalg.norm(expected)


@compiled
def test_equal_units_stay_equal_where_parting_them_would_lower_the_energy():
    y = 0.1 * torch.randn(20, 64, generator=torch.Generator().manual_seed(5))
    y[:, :40] = y[:, :1]
    found = ibnn.solve(y, 0.26, SLOPE, sigma="peaked", engine="native")
    assert found.converged.all()
    crowd = found.value[:, :40]
    assert (crowd.amax(-1) - crowd.amin(-1)).max() < 1e-4


@pytest.mark.parametrize("lam", [-0.2, 0.05, 0.2])
@pytest.mark.parametrize("sigma", [PEAKED, Peaked(0.4)])
def test_no_solution_of_it_is_said_to_be_unique(lam, sigma):
    y = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    assert not ibnn.solve(y, lam, SLOPE, sigma=sigma).unique.any()
    assert ibnn.solve(y, 0.0, SLOPE, sigma=sigma).unique.all()


def test_one_that_is_not_compiled_goes_down_too_for_negative_lam():
    y = torch.randn(8, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    sigma = Peaked(0.5, "mine")  # the same function, which no engine knows
    found = ibnn.solve(y, -1.0, SLOPE, sigma=sigma)
    assert found.converged.all()
    for z, start in zip(found.value.numpy(), y.numpy(), strict=True):
        error, eigenvalue = error_and_eigenvalue(z, start, -1.0)
        assert error <= 1e-10
        assert eigenvalue > 0


@compiled
def test_only_its_solves_are_compiled_and_rows_of_a_thousand_units_at_most():
    y = torch.zeros(1, 2000)
    native = engine.engines()["native"]
    for operation, units in (("pair_sum", (64,)), ("solve", (2000,)), ("adjoint", (2000,))):
        assert native.declines(engine.case_of(operation, y, UNIFORM, PEAKED, units))
    assert native.declines(engine.case_of("solve", y, UNIFORM, PEAKED, (64,))) is None
    assert native.declines(engine.case_of("solve", y, UNIFORM, Peaked(0.4), (64,)))
