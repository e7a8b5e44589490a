"""The portable engine as a device runs it: few launches, fewer looks, products that round to TF32.

There is no device here. `as_on_a_device` makes the engine believe that there is one: it then keeps
what lives on nodes in doubles, takes large blocks, and looks at numbers as seldom as it can.
"""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ibnn
from ibnn.coupling import window_sums
from ibnn.coupling.sums import UNIFORM
from ibnn.engine import case_of, engines
from ibnn.engine.portable import adjoint, device, grid, grid_field, grid_newton, rows, taps
from ibnn.sigma import TANH
from tests import oracle

ROWS, UNITS = 2048, 1024
PRODUCTS = ("mm", "bmm", "addmm", "matmul", "baddbmm", "conv1d", "convolution")
# memory is not moved by these
NO_LAUNCH = {"alias", "as_strided", "detach", "expand", "numpy_T", "permute", "reshape", "select"}
NO_LAUNCH |= {"slice", "split", "squeeze", "t", "transpose", "unfold", "unsqueeze", "view"}
NO_LAUNCH |= {"empty", "empty_like", "new_empty", "squeeze_", "_unsafe_view", "_reshape_alias"}
NO_LAUNCH |= {"scalar_tensor"}  # a number of the host
LOOKS = {"_local_scalar_dense", "equal", "is_nonzero", "item", "nonzero", "unique", "_unique2"}


class Counted(TorchDispatchMode):
    """Counts launches, and looks at numbers that a device must wait for."""

    def __init__(self):
        super().__init__()
        self.launches = self.looks = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.split(".")[0]
        result = function(*args, **(kwargs or {}))
        self.looks += name in LOOKS
        self.launches += name not in NO_LAUNCH and result is not args[0]
        self.launches += name.endswith("_") and result is args[0]
        return result


class ShortProducts(TorchDispatchMode):
    """Rounds the factors of every product of float32 matrices to 10 bits, as TF32 does."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.__name__.split(".")[0] in PRODUCTS:
            args = tuple(_rounded(a) if isinstance(a, torch.Tensor) else a for a in args)
        return function(*args, **(kwargs or {}))


def _rounded(x):
    if x.dtype != torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    return ((bits + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32)


@pytest.fixture
def as_on_a_device(monkeypatch):
    """Gives a list that grows with every transfer to the host."""
    transfers = []

    def look(*values):
        transfers.append(len(values))
        return real(*values)

    real = device.look
    for module in (device, grid, grid_field, grid_newton, rows, taps):
        monkeypatch.setattr(module, "on_host", lambda rows: False)
    for module in (adjoint, rows):
        monkeypatch.setattr(module, "look", look)
    return transfers


def solve_both_ways(y, g, lam, count):
    """z and v of the engine itself, and the launches and looks of each."""
    engine, slope = engines()["portable"], y.new_full((len(y),), 10.0)
    strength, atol = (lam * slope).double(), 2e-6 * slope.double()
    found = []
    with count() as forward:
        case = case_of("solve", y, UNIFORM, TANH, y.shape[1:])
        solved = engine.solve(case, y, strength, slope.double(), None, atol, 1e-5)
    z = solved.z * 10
    with count() as backward:
        case = case_of("adjoint", y, UNIFORM, TANH, y.shape[1:])
        answer = engine.adjoint(case, z, g, strength.float(), None)
    found += [solved, answer, forward, backward]
    return found


@pytest.mark.parametrize("std", [0.1, 1.0])
@pytest.mark.parametrize("lam", [-0.2, 0.08])
def test_a_solve_takes_few_launches_and_fewer_looks(lam, std, as_on_a_device, generator):
    """400 launches and 4 looks forward, 250 and 2 backward, of which the ops around the engine
    take 11 and 1, and 8 and none (the error comes back on the host)."""
    y = std * torch.randn(ROWS, UNITS, generator=generator)
    g = torch.randn(ROWS, UNITS, generator=generator)
    solve_both_ways(y, g, lam, Counted)  # tables are made once
    as_on_a_device.clear()
    solved, answer, forward, backward = solve_both_ways(y, g, lam, Counted)
    assert solved.solved.all()
    assert float(answer.error.max()) <= 1e-4
    assert forward.launches <= 400 - 11
    assert backward.launches <= 250 - 8
    # one transfer decides the ways of all rows, one more tells the error of the gradient
    assert len(as_on_a_device) == 3
    assert forward.looks + 1 <= 4 - 1
    assert backward.looks + 2 <= 2


@pytest.mark.parametrize("lam", [-0.2, 0.08])
@pytest.mark.parametrize("std", [0.03, 0.3, 1.0])
@pytest.mark.parametrize("units", [30, 300])
def test_products_that_round_cost_no_digits(units, std, lam, as_on_a_device, generator):
    y = std * torch.randn(3, units, generator=generator)
    g = torch.randn(3, units, generator=generator)
    solved, answer, *_ = solve_both_ways(y, g, lam, ShortProducts)
    assert solved.solved.all()
    for row in range(3):
        z = oracle.solve_row(y[row].double().numpy(), lam, 10.0)
        assert np.abs(solved.z[row].double().numpy() - z).max() <= 1e-6
        v, _, _ = oracle.gradient_row(None, lam, 10.0, g[row].double().numpy(), z=z)
        error = np.linalg.norm(answer.v[row].double().numpy() - v)
        assert error <= 1e-5 * np.linalg.norm(v)


def test_a_users_setting_for_quicker_products_costs_no_digits_either(generator):
    """torch.set_float32_matmul_precision("high") is the user's, and stays as it is."""
    y = torch.randn(2, 300, generator=generator)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with ShortProducts():
            z = rows.find_roots(
                y, torch.full((2,), 10.0), torch.full((2,), -2.0), torch.full((2,), 2e-5), "tanh"
            )[0]
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    for row in range(2):
        expected = oracle.solve_row(y[row].double().numpy(), -0.2, 10.0)
        assert np.abs(z[row].double().numpy() - expected).max() <= 1e-6


@pytest.mark.parametrize(
    ("units", "size"), [((40,), (5,)), ((12, 9), (3, 5)), ((32, 32), (15, 15))]
)
@pytest.mark.parametrize("order", [-1, 0, 1, 2])
def test_a_window_takes_a_dozen_launches_however_large_it_is(
    units, size, order, monkeypatch, generator
):
    sums = ibnn.Window(size).sums
    weight = torch.rand(*size, generator=generator, dtype=torch.float64)
    z, a = torch.randn(2, 6, np.prod(units), generator=generator, dtype=torch.float64)
    for factors in (None, a):
        arguments = z, factors, weight, order, TANH, units
        expected = sums.pair_sum(*arguments)
        monkeypatch.setattr(window_sums, "_prefers_few_ops", lambda z: True)
        with Counted() as count:
            found = sums.pair_sum(*arguments)
        monkeypatch.undo()
        torch.testing.assert_close(found, expected, atol=1e-13, rtol=1e-13)
        with Counted() as own:
            TANH.derivative(z, order)
        assert count.launches <= 10 + own.launches
        assert count.looks == 0
