"""Rows as images make them: a background of equal units, and many units that are nearly so.

Half of the units of a map may have one value. Where lam is near its bound, as in trained networks,
the nodes of such rows have to be close together, and the rows are handed on.
"""

import numpy as np
import pytest
import torch

import ibnn
from ibnn.engine.native import loader
from tests import oracle

pytestmark = pytest.mark.skipif(
    not loader.available(), reason="no C++ compiler: the compiled engine cannot be built"
)


def image_rows(count: int, units: int) -> torch.Tensor:
    """Half of a row is background; the others lie below it, most of them not far."""
    generator = torch.Generator().manual_seed(units)
    y = torch.full((count, units), 0.17)
    for row in y:
        inside = torch.randperm(units, generator=generator)[: units // 2]
        depth = torch.rand(len(inside), generator=generator) ** 2
        row[inside] -= (2 + 1.5 * torch.rand((), generator=generator)) * depth
    return y


@pytest.mark.parametrize("lam", [0.095, 0.088, -0.1])
@pytest.mark.parametrize("units", [196, 784, 1024, 3136])
def test_they_are_right_in_few_steps(units, lam):
    """One at a time and in doubles, which costs 40 times as much, they took 8 to 14 steps."""
    y = image_rows(24, units).requires_grad_()
    solution = ibnn.solve(y, lam, 10.0, engine="native")
    assert solution.converged.all()
    assert solution.steps.max() <= 6
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad(ibnn.implicit_bias(y, lam, 10.0, engine="native"), y, g)
    for row in range(2):
        here = y[row].detach().double().numpy()
        exact = oracle.solve_row(here, lam, 10.0)
        right = oracle.gradient_row(here, lam, 10.0, g[row].double().numpy(), z=exact)[0]
        # as promised in float32: z to 1e-5, gradients to 1e-4 of their size
        assert np.abs(solution.value[row].detach().numpy() - exact).max() < 1e-5
        assert np.linalg.norm(gradient[row].numpy() - right) < 1e-4 * np.linalg.norm(right)


def test_a_row_does_not_depend_on_those_handed_on_beside_it():
    y = image_rows(24, 784)
    together = ibnn.solve(y, 0.095, 10.0, engine="native").value
    for row in (0, 11, 23):
        alone = ibnn.solve(y[row : row + 1], 0.095, 10.0, engine="native").value
        assert (together[row] - alone[0]).abs().max() <= 1e-6


def test_channels_of_different_widths_come_out_as_each_row_alone():
    """The maps of a layer take turns, and rows of like width share registers."""
    spread = torch.tensor([0.3, 1.0, 3.0, 8.0]).repeat(24)[:, None]
    y = (image_rows(96, 784) * spread).requires_grad_()
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    z = ibnn.implicit_bias(y, 0.095, 10.0, engine="native")
    (gradient,) = torch.autograd.grad(z, y, g)
    for row in (0, 41, 62, 95):
        alone = y[row : row + 1].detach().requires_grad_()
        one = ibnn.implicit_bias(alone, 0.095, 10.0, engine="native")
        (own,) = torch.autograd.grad(one, alone, g[row : row + 1])
        here = y[row].detach().double().numpy()
        exact = oracle.solve_row(here, 0.095, 10.0)
        right = oracle.gradient_row(here, 0.095, 10.0, g[row].double().numpy(), z=exact)[0]
        # rows are independent to 1e-6 in float32, of y where that is larger; exact as above
        largest = max(1.0, np.abs(here).max())
        assert (one[0] - z[row]).abs().max() <= 1e-6 * largest
        assert np.abs(z[row].detach().numpy() - exact).max() < 1e-5 * largest
        assert (own[0] - gradient[row]).norm() <= 1e-5 * own.norm()
        assert np.linalg.norm(gradient[row].numpy() - right) < 1e-4 * np.linalg.norm(right)
