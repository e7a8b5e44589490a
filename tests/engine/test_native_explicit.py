"""The explicit step of the compiled engine against sums over all pairs in float64."""

import numpy as np
import pytest
import torch

import ibnn
from ibnn.engine.native import calls, loader

pytestmark = pytest.mark.skipif(not loader.available(), reason="no compiled engine")

SLOPE = 10.0
# a float32 sum over pairs is good to a few roundings of 1, and lam times that is in z; of the
# gradient the promise is 1e-4, and one step has no linear solve that could need that much
VALUE, GRADIENT = 1e-6, 2e-5
S = {
    "tanh": (torch.tanh, lambda x: 1 - torch.tanh(x) ** 2),
    "erf": (
        lambda x: torch.erf(x * np.sqrt(np.pi) / 2),
        lambda x: torch.exp(-(x**2) * np.pi / 4),
    ),
    "arctan": (
        lambda x: torch.atan(x * np.pi / 2) * 2 / np.pi,
        lambda x: 1 / (1 + (x * np.pi / 2) ** 2),
    ),
    "hardtanh": (lambda x: x.clamp(-1, 1), lambda x: (x.abs() < 1).double()),
}


def rows_of(kind, n, std, generator):
    x = torch.randn(2, n, generator=generator) * std
    if kind == "tied":  # the background of an image
        x[torch.rand(2, n, generator=generator) < 0.6] = 0.37 * std
    elif kind == "crowded":
        x = x.sign() * std + 0.02 * x
    elif kind == "heavy":
        x = x / torch.rand(2, n, generator=generator).clamp_min(1e-3)
    return x


def by_pairs(y, g, lam, sigma):
    """z, the gradient of y and that of lam, row by row in float64, as the engine sees the units:
    after the rounding of slope * y."""
    s, slope = S[sigma]
    z, grad, dots = [], [], 0.0
    for row, own, at in zip((y * SLOPE).double(), g.double(), y.double(), strict=True):
        x = row[None, :] - row[:, None]
        bias, slopes = s(x).mean(-1), slope(x) / len(row)
        z.append(at - lam * bias)
        grad.append(own - lam * SLOPE * (slopes @ own - slopes.sum(-1) * own))
        dots -= float(own @ bias)
    return torch.stack(z), torch.stack(grad), dots


@pytest.mark.parametrize("sigma", S)
@pytest.mark.parametrize("kind", ["normal", "tied", "crowded", "heavy"])
@pytest.mark.parametrize("n", [2, 3, 7, 33, 64, 97, 150, 333, 1024])
def test_a_step_and_its_gradient_are_those_of_all_pairs(n, kind, sigma):
    generator = torch.Generator().manual_seed(n)
    for std in (0.003, 0.1, 0.5, 6.0):
        y = rows_of(kind, n, std, generator).requires_grad_()
        lam = torch.tensor(-0.07, requires_grad=True)
        g = torch.randn(2, n, generator=generator)
        z = ibnn.implicit_bias(y, lam, SLOPE, sigma=sigma, solver="lite", engine="native")
        z.backward(g)
        assert y.grad is not None
        assert lam.grad is not None
        exact, gradient, dots = by_pairs(y.detach(), g, -0.07, sigma)
        error = (z.detach().double() - exact).abs() / y.detach().double().abs().clamp_min(1)
        assert error.max() <= VALUE, (std, error.max())
        wrong = (y.grad.double() - gradient).norm() / gradient.norm()
        assert wrong <= GRADIENT, (std, wrong)
        size = float(g.double().norm() * (exact - y.detach().double()).norm()) / 0.07
        assert abs(lam.grad.item() - dots) <= GRADIENT * max(size, 1e-3)


def test_a_row_that_is_not_finite_spoils_no_other():
    y = torch.randn(9, 300, generator=torch.Generator().manual_seed(1))
    y[4, 7] = torch.inf
    z, scaled = calls.explicit_step(y, -0.1, SLOPE, "tanh", True)
    assert scaled is not None
    good = torch.arange(9) != 4
    assert z[4].isnan().all()
    assert z[good].isfinite().all()
    alone = calls.explicit_step(y[3:4], -0.1, SLOPE, "tanh", False)[0]
    torch.testing.assert_close(z[3:4], alone, rtol=0, atol=1e-6)
    g = torch.ones(9, 300)
    g[2, 5] = torch.nan
    v, dots = calls.explicit_gradient(scaled, g, -1.0, "tanh")
    good[2] = False
    assert v[~good].isnan().all()
    assert dots[~good].isnan().all()
    assert v[good].isfinite().all()
    assert dots[good].isfinite().all()


def test_it_is_one_call_each_way(monkeypatch):
    names = []
    real = calls._call

    def count(name, *rest):
        names.append(name)
        return real(name, *rest)

    monkeypatch.setattr(calls, "_call", count)
    y = torch.randn(4, 200, requires_grad=True)
    lam = torch.tensor(-0.1, requires_grad=True)
    ibnn.implicit_bias(y, lam, SLOPE, solver="lite", engine="native").sum().backward()
    assert names == ["explicit_step", "explicit_gradient"]


def test_without_gradients_nothing_is_kept():
    z, scaled = calls.explicit_step(torch.randn(3, 40), -0.1, SLOPE, "tanh", False)
    assert scaled is None
    assert z.shape == (3, 40)
