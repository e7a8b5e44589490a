"""One long row on all threads of the compiled engine: right, the same on any number, one region."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import ibnn
from ibnn.engine.native import calls as native
from ibnn.engine.native import loader
from tests import bank

pytestmark = pytest.mark.skipif(
    not loader.available(), reason="no C++ compiler: the compiled engine cannot be built"
)

LONG = 100_000  # units: two threads work at one row of floats
DTYPES = (torch.float32, torch.float64)
ROWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: 0.3 * rng.standard_normal(n),
    "narrow": lambda rng, n: 1e-3 * rng.standard_normal(n),
    "wide": lambda rng, n: 30 * rng.standard_normal(n),
    "ties": lambda rng, n: np.maximum(0, rng.standard_normal(n)),
    "far units": lambda rng, n: np.append(rng.standard_normal(n - 3), [-1e5, 3e4, 1e6]),
}


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def regions() -> int:
    library = loader.library()
    assert library is not None
    return library.ibnn_regions_begun()


def solve(y: torch.Tensor, strength: float = -1.0, sigma: str = "tanh") -> tuple:
    """z, residual, steps and solved; then v, its error and v . B for a g of its own."""
    rows = len(y)
    atol = 1e-5 if y.dtype == torch.float32 else 1e-11
    given = [torch.full((rows,), value, dtype=torch.float64) for value in (strength, 10.0, atol)]
    found = native.solve_rows(y, *given, 0.0, sigma)
    g = torch.randn(y.shape[-1], generator=torch.Generator().manual_seed(5)).to(y.dtype)
    return *found, *native.solve_jacobian(10 * found[0], g.expand_as(y), given[0], sigma)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("problem", bank.stored(), ids=str)
def test_a_row_of_many_copies_has_the_stored_answer(problem, dtype):
    """If every unit occurs equally often, sums over pairs are those of the row without copies."""
    copies = -(-LONG // len(problem.y))
    order = torch.randperm(copies * len(problem.y), generator=torch.Generator().manual_seed(1))

    def repeated(x: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.tile(x, copies)).to(dtype)[order]

    y = repeated(problem.y).requires_grad_()
    lam = torch.tensor(problem.lam, dtype=dtype, requires_grad=True)
    with threads(2):
        before = regions()
        z = ibnn.implicit_bias(y, lam, problem.slope, on_failure="raise")
        assert regions() == before + 1
        allowed = (1e-5 if dtype == torch.float32 else 1e-10) * y.detach().abs().clamp(min=1)
        assert ((z - repeated(problem.expected)).abs() <= allowed).all()
        if len(problem.y) > 1000:
            return  # the oracle takes minutes for their gradients
        g = bank.exact(np.random.default_rng(2).standard_normal(len(problem.y)))
        z.backward(repeated(g))
        assert regions() == before + 2
    by_y, by_lam, _ = problem.gradient(g)
    # promised, and 1e-3 in float32 where slope * std > 100
    steep = problem.slope * problem.y.std() > 100
    relative = 1e-8 if dtype == torch.float64 else (1e-3 if steep else 1e-4)
    assert y.grad is not None
    assert lam.grad is not None
    expected = repeated(by_y)
    assert (y.grad - expected).norm() <= relative * expected.norm()
    bias = (z.detach() - y.detach()) / problem.lam  # what dL/dlam is the sum of, times v
    assert abs(lam.grad - copies * by_lam) <= relative * expected.norm() * bias.norm()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sigma", ["tanh", "erf", "arctan", "hardtanh"])
@pytest.mark.parametrize("kind", ROWS)
def test_the_number_of_threads_changes_no_bit(kind, sigma, dtype):
    units = 2 * LONG - 5 if dtype == torch.float32 else 20_005
    y = torch.from_numpy(ROWS[kind](np.random.default_rng(3), units)).to(dtype)[None]
    with threads(1):
        alone = solve(y, sigma=sigma)
    assert alone[3].all()
    for number in (2, 3):
        with threads(number):
            shared = solve(y, sigma=sigma)
        for one, other in zip(alone, shared, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_row_does_not_depend_on_its_batch(dtype):
    """Alone it has both threads, among three rows one of them."""
    rng = np.random.default_rng(4)
    y = torch.from_numpy(rng.standard_normal((3, LONG)) * [[0.1], [1], [0.3]]).to(dtype)
    with threads(2):
        alone, among = solve(y[:1], 0.5), solve(y, 0.5)
    for one, many in zip(alone, among, strict=True):
        assert torch.equal(one, many[:1])


def test_a_bad_row_leaves_its_neighbor_alone():
    """Two rows on three threads: one after the other, all threads at each."""
    y = torch.randn(2, LONG * 2, generator=torch.Generator().manual_seed(6))
    y[0, -1] = float("nan")
    with threads(3):
        before = regions()
        z, _, _, solved, v, error, _ = solve(y)
        assert regions() == before + 2
    assert solved.tolist() == [False, True]
    assert z[0].isnan().all()
    assert v[0].isnan().all()
    assert error[0] == float("inf")
    expected = solve(y[1:])
    assert torch.equal(z[1:], expected[0])
    assert torch.equal(v[1:], expected[4])


@pytest.mark.parametrize(
    ("rows", "units", "expected"), [(1, 9_000, 0), (1, LONG, 1), (1, 4 * LONG, 1), (64, 1024, 1)]
)
def test_a_solve_is_one_region_or_none(rows, units, expected):
    y = torch.randn(rows, units, generator=torch.Generator().manual_seed(7))
    given = [torch.full((rows,), value) for value in (-1.0, 10.0, 1e-5)]
    with threads(2):
        before = regions()
        z, *_ = native.solve_rows(y, *given, 0.0, "tanh")
        between = regions()
        native.solve_jacobian(10 * z, y, given[0], "tanh")
        assert [between - before, regions() - between] == [expected, expected]
