"""The gradient of a learnt slope: (z_k - z_i) s'(z_k - z_i) over all pairs, against those pairs."""

import pytest
import torch

import ibnn
from ibnn import sigma as sigmas
from ibnn._core import adjoint
from ibnn.engine.native import calls, loader

pytestmark = pytest.mark.skipif(not loader.available(), reason="no compiled engine")

MAPS = ibnn.Uniform((-2, -1))
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}


def change_of(z: torch.Tensor, sigma: str) -> torch.Tensor:
    gaps = z.double().unsqueeze(-2) - z.double().unsqueeze(-1)
    return (gaps * sigmas.REGISTRY.resolve(sigma).derivative(gaps, 1)).mean(-1)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("sigma", ["tanh", "hardtanh", "arctan", "erf"])
@pytest.mark.parametrize("units", [1, 2, 15, 16, 48, 49, 130, 784, 1100])
@pytest.mark.parametrize("std", [0.0, 1e-6, 0.01, 1.0, 10.0, 100.0])
def test_the_change_by_the_slope_is_that_of_all_pairs(std, units, sigma, dtype, generator):
    z = (std * torch.randn(3, units, generator=generator)).to(dtype)
    z[1, : units // 3] = z[1, 0]  # a crowd
    z[2, -1] = 1e6  # one far from all others
    found, expected = calls.pair_sum(z, None, calls.STRETCH, sigma), change_of(z, sigma)
    error = (found - expected).norm(dim=-1)
    # where units are far from each other, or near, each term has next to nothing
    rounding = {torch.float32: 6e-8, torch.float64: 1e-15}[dtype] * units**0.5
    assert (error <= TOLERANCE[dtype] * expected.norm(dim=-1) + rounding).all()
    assert std > 0 or not found[0].any()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("lam", [-0.2, 0.05])
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last], ids=str)
def test_the_gradient_of_one_slope_is_that_of_the_pairs(memory, lam, dtype, generator, monkeypatch):
    y = torch.randn(2, 3, 7, 9, generator=generator).to(dtype).contiguous(memory_format=memory)
    g, strength = torch.randn(2, 3, 7, 9, generator=generator).to(dtype), torch.tensor(lam).double()
    slope = torch.tensor(8.0, dtype=dtype, requires_grad=True)
    with monkeypatch.context() as patch:
        patch.setattr(adjoint, "gradients", None)  # the fast path has it all
        z = ibnn.implicit_bias(y, torch.tensor(lam), slope, coupling=MAPS, engine="native")
        z.backward(g)
    each = slope.detach().expand(3).clone().requires_grad_()
    ibnn.implicit_bias(y, torch.tensor(lam), each, coupling=MAPS, engine="native").backward(g)
    scaled = 8 * ibnn.implicit_bias(y.double(), strength, 8.0, coupling=MAPS).flatten(-2)
    gaps = scaled.unsqueeze(-2) - scaled.unsqueeze(-1)
    pairs = 8 * strength / 63 / torch.cosh(gaps) ** 2
    jacobian = pairs - torch.diag_embed(pairs.sum(-1)) + torch.eye(63, dtype=torch.float64)
    v = torch.linalg.solve(jacobian, g.double().flatten(-2).unsqueeze(-1)).squeeze(-1)
    terms = -strength / 8 * v * change_of(scaled, "tanh")
    allowed = {torch.float32: 1e-5, torch.float64: 1e-9}[dtype] * terms.abs().sum()
    assert abs(slope.grad - terms.sum()) <= allowed
    assert (each.grad - terms.sum((0, 2))).abs().max() <= allowed


def test_the_engine_is_asked_for_a_pair_sum_of_order_1(generator, monkeypatch):
    asked, engine = [], ibnn.engines()["native"]

    def slope_change(case, z):
        asked.append((case.operation, case.order))
        return type(engine).slope_change(engine, case, z)

    monkeypatch.setattr(engine, "slope_change", slope_change)
    layer = ibnn.ImplicitBias(-0.2, learn_slope=True)
    layer(torch.randn(3, 20, generator=generator)).square().sum().backward()
    each = torch.full((3,), 8.0, requires_grad=True)
    ibnn.implicit_bias(torch.randn(3, 20, generator=generator), -0.2, each).sum().backward()
    assert asked == [("pair_sum", 1)] * 2
