"""A sigma that is not monotonic: solved, and certified by nobody."""

import pytest
import torch
from scipy.integrate import quad
from torch import nn

import ibnn
from ibnn.lab.attacks import evaluate
from ibnn.lab.models import Peaked


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
