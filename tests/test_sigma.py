"""Every sigma: its values against the oracle's, its derivatives against each other."""

import copy
import pickle

import numpy as np
import pytest
import torch

import ibnn
from ibnn import sigma as sigmas
from tests import oracle
from tests.parts import Softsign

NAMES = list(oracle.SIGMAS)
EPS = torch.finfo(torch.float64).eps


class SoftSign(Softsign):
    name = "soft sign"


class Wave(ibnn.Sigma):
    name = "wave"

    def value(self, x):
        return torch.sin(x)

    def primitive(self, x):
        return 1 - torch.cos(x)


def points():
    # off the kinks of hardtanh, and far enough out to saturate
    x = torch.linspace(-6, 6, 241, dtype=torch.float64) + 0.0123
    return torch.cat([x, torch.tensor([-1e6, -50.0, 50.0, 1e6], dtype=torch.float64)])


def test_the_built_in_sigmas_are_those_of_the_oracle():
    assert set(NAMES) == {sigma.name for sigma in sigmas.BUILT_IN}


@pytest.mark.parametrize("sigma", NAMES)
def test_value_derivative_and_primitive_are_the_oracles(sigma):
    x = points()
    value, derivative, primitive = oracle.SIGMAS[sigma]
    chosen = sigmas.resolve(sigma)
    # library functions are right to a few ulp; S grows like |x|, so its error does too
    for order, expected in ((0, value), (1, derivative), (-1, primitive)):
        np.testing.assert_allclose(
            chosen.derivative(x, order).numpy(), expected(x.numpy()), rtol=16 * EPS, atol=16 * EPS
        )


@pytest.mark.parametrize("sigma", ["tanh", "arctan", "erf", "hardtanh", "own"])
@pytest.mark.parametrize("order", [-1, 0, 1, 2, 3, 4])
def test_each_derivative_is_the_slope_of_the_one_below(sigma, order):
    chosen = SoftSign() if sigma == "own" else sigmas.resolve(sigma)
    x, step = points()[:241], 1e-5
    ahead, behind = chosen.derivative(x + step, order), chosen.derivative(x - step, order)
    # central differences: step^2 / 6 times a derivative of order + 3 <= 7 (below 2e4 for all,
    # arctan's and softsign's are the largest: (n-1)! (pi/2)^(n-1), n!), and rounding
    size = float(ahead.abs().max())
    tolerance = step**2 / 6 * 2e4 + 4 * EPS * size / step
    torch.testing.assert_close(
        (ahead - behind) / (2 * step), chosen.derivative(x, order + 1), rtol=0, atol=tolerance
    )


@pytest.mark.parametrize("sigma", NAMES)
def test_values_are_odd_bounded_by_one_and_steepest_at_zero(sigma):
    chosen, x = sigmas.resolve(sigma), points()
    zero = torch.zeros(1, dtype=torch.float64)
    assert chosen.derivative(zero, -1) == chosen.derivative(zero, 0) == 0
    assert chosen.derivative(zero, 1) == chosen.slope_bound == 1
    assert torch.equal(chosen.derivative(-x, 0), -chosen.derivative(x, 0))
    assert chosen.derivative(x, 0).abs().max() <= chosen.bound
    assert (chosen.derivative(x, 1) <= 1).all()
    assert (chosen.derivative(x, 1) >= 0).all()


def test_a_sigma_of_ones_own_solves_its_equation_and_goes_backward():
    y = torch.linspace(-0.4, 0.5, 12, dtype=torch.float64).requires_grad_()
    # the object is gone by the time gradients come back: the graph must keep it
    z = ibnn.implicit_bias(y, -0.3, sigma=SoftSign())
    x = 10 * (z[None, :] - z[:, None])
    residual = z - y - 0.3 * (x / (1 + x.abs())).mean(1)
    assert residual.abs().max() < 1e-11
    (grad,) = torch.autograd.grad(z.sum(), y)
    torch.testing.assert_close(grad, torch.ones_like(y))  # the mean is kept


def test_inference_mode_does_not_change_a_sigma_of_ones_own():
    y = torch.linspace(-1, 1, 6, dtype=torch.float64).expand(2, 6)
    expected = ibnn.solve(y, 0.3, sigma=SoftSign())
    slopes = [SoftSign().derivative(y, order) for order in range(4)]
    with torch.inference_mode():
        made_here = y.clone()
        for x in (y, made_here):
            for order, slope in enumerate(slopes):
                assert torch.equal(SoftSign().derivative(x, order), slope)
            found = ibnn.solve(x, 0.3, sigma=SoftSign())
            assert torch.equal(found.value, expected.value)
            assert torch.equal(found.steps, expected.steps)
            assert torch.equal(found.unique, expected.unique)
    assert torch.equal(SoftSign().derivative(made_here, 1), slopes[1])


def test_slopes_of_ones_own_sigma_are_worked_out_once_for_all_products_at_one_z():
    class Counted(Softsign):
        slopes = 0

        def derivative(self, x, order):
            Counted.slopes += order == 1
            return super().derivative(x, order)

    y = torch.linspace(-1, 1, 30, dtype=torch.float64).requires_grad_()
    z = ibnn.implicit_bias(y, -2.0, sigma=Counted())
    g, Counted.slopes = torch.linspace(-1, 2, 30, dtype=torch.float64), 0
    (grad,) = torch.autograd.grad(z, y, g)
    # conjugate gradients take about ten products here; once more for J's diagonal
    assert Counted.slopes <= 2
    x = 10 * (z[None, :] - z[:, None]).detach()
    slopes = 10 * 2.0 / len(y) / (1 + x.abs()) ** 2
    exact = torch.eye(len(y)) + torch.diag(slopes.sum(1)) - slopes
    torch.testing.assert_close(grad, torch.linalg.solve(exact, g))


def test_a_sigma_must_be_odd():
    class Shifted(Softsign):
        def value(self, x):
            return torch.tanh(x + 0.5)

    with pytest.raises(ValueError, match="must be odd"):
        sigmas.resolve(Shifted())


def test_a_sigma_that_decreases_is_refused_unless_it_says_so():
    with pytest.raises(ValueError, match="certified = False"):
        ibnn.implicit_bias(torch.zeros(3), 0.01, sigma=Wave())
    wave = Wave()
    wave.certified = False
    y = torch.linspace(-0.3, 0.3, 5, dtype=torch.float64)
    z = ibnn.implicit_bias(y, 0.02, sigma=wave)
    assert (z - y + 0.02 * torch.sin(10 * (z[None] - z[:, None])).mean(1)).abs().max() < 1e-11
    with pytest.raises(ValueError, match="not certified"):
        ibnn.uniqueness_threshold(10.0, sigma=wave)
    with pytest.raises(ValueError, match="bounded=False"):
        ibnn.Linear(2, 2, sigma=wave)
    ibnn.Linear(2, 2, sigma=wave, bounded=False)


def test_a_sigma_steeper_than_it_claims_is_refused():
    class Steep(Softsign):
        def value(self, x):
            return 3 * super().value(x)

    with pytest.raises(ValueError, match="above its slope_bound"):
        sigmas.resolve(Steep())


class Kinked(ibnn.Sigma):
    """Rises with slope 1 at 0, where autograd has none of sign(x) and |x|."""

    name = "kinked"

    def value(self, x):
        return x.sign() * (1 - torch.exp(-x.abs()))

    def primitive(self, x):
        return x.abs() + torch.exp(-x.abs()) - 1


def test_a_sigma_that_autograd_gives_another_slope_at_zero_is_refused():
    with pytest.raises(ValueError, match=r"kinked has derivative 0 at 0, but rises .* slope 1"):
        ibnn.implicit_bias(torch.zeros(3), -0.1, sigma=Kinked())

    class Written(Kinked):
        def derivative(self, x, order):
            found = super().derivative(x, order)
            return torch.exp(-x.abs()) if order == 1 else found

    ibnn.implicit_bias(torch.zeros(3), -0.1, sigma=Written())


def test_a_sigma_without_its_primitive_is_refused_at_once():
    class Half(Kinked):
        def value(self, x):
            return torch.tanh(x)

        def primitive(self, x):
            return ibnn.Sigma.primitive(self, x)

    with pytest.raises(NotImplementedError, match=r"Half needs a method primitive\(x\)"):
        ibnn.implicit_bias(torch.zeros(3), -0.1, sigma=Half())


def test_a_primitive_that_belongs_to_another_sigma_is_refused():
    class Wide(Softsign):
        def primitive(self, x):
            return 2 * super().primitive(x)

    message = r"softsign has value -0\.8889 at -8, where its primitive rises with slope -1\.778"
    with pytest.raises(ValueError, match=message):
        sigmas.resolve(Wide())


def test_what_is_no_sigma_is_told_what_would_be():
    with pytest.raises(ValueError, match=r"sigma='relu'.*arctan.*erf.*hardtanh.*tanh"):
        ibnn.implicit_bias(torch.zeros(3), 0.01, sigma="relu")
    with pytest.raises(TypeError, match="sigma must be"):
        ibnn.implicit_bias(torch.zeros(3), 0.01, sigma=torch.tanh)  # type: ignore[arg-type]
    with pytest.raises(LookupError, match="not known in this process"):
        sigmas.REGISTRY.lookup("gone@1")
    for method in ("value", "primitive"):
        with pytest.raises(NotImplementedError, match=method):
            getattr(ibnn.Sigma(), method)(torch.zeros(1))


@pytest.mark.parametrize("sigma", NAMES)
def test_copies_of_a_built_in_sigma_are_that_sigma(sigma):
    chosen = sigmas.resolve(sigma)
    assert pickle.loads(pickle.dumps(chosen)) is chosen
    assert copy.deepcopy(chosen) is chosen
