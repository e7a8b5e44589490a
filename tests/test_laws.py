"""Laws of the neuron, whatever the row: mean, order, permutations, contraction, energy, rows."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import ibnn
from tests import oracle

SIGMAS = st.sampled_from(list(oracle.SIGMAS))
SLOPES = st.sampled_from([1.0, 10.0, 100.0])
# lam as a share of the threshold: positive ones below it, negative ones up to lam = -2
SHARES = st.one_of(st.floats(-1, 0), st.floats(0, 0.95))
UNITS = 12
COUPLINGS = {
    "uniform": lambda: (ibnn.Uniform(-1), (UNITS,)),
    "window": lambda: (ibnn.Window((3, 3), "gaussian", std=0.75), (3, 4)),
    "dense": lambda: (ibnn.Dense(_DENSE), (UNITS,)),
}
_DENSE = torch.from_numpy(np.abs(np.random.default_rng(0).standard_normal((UNITS, UNITS)))) / UNITS
# what the library promises of float64, twice: for the value tested and the one compared to
EXACT = 2e-10

lengths = st.integers(1, 40)


def rows(units=lengths, bound=20.0):
    elements = st.floats(-bound, bound, width=32)
    shape = units if isinstance(units, int) else units.map(lambda n: (n,))
    return arrays.arrays(np.float64, shape, elements=elements)


def strength(share, slope, coupling=None):
    if share <= 0:
        return 2 * share
    return share * float(ibnn.uniqueness_threshold(slope, coupling))


@given(y=rows(), share=SHARES, slope=SLOPES, sigma=SIGMAS)
def test_the_mean_is_kept(y, share, slope, sigma):
    z = ibnn.implicit_bias(torch.from_numpy(y), strength(share, slope), slope, sigma=sigma)
    assert float(z.mean()) == pytest.approx(y.mean(), abs=EXACT)


@pytest.mark.parametrize("kind", COUPLINGS)
@given(y=rows(UNITS), share=SHARES, slope=SLOPES, sigma=SIGMAS)
@settings(max_examples=30)
def test_the_mean_is_kept_by_every_coupling(kind, y, share, slope, sigma):
    coupling, shape = COUPLINGS[kind]()
    lam = strength(share, slope, coupling)
    z = ibnn.implicit_bias(
        torch.from_numpy(y).reshape(shape), lam, slope, coupling=coupling, sigma=sigma
    )
    assert float(z.mean()) == pytest.approx(y.mean(), abs=EXACT)


@given(y=rows(), share=SHARES, slope=SLOPES, sigma=SIGMAS)
def test_the_order_of_units_is_kept(y, share, slope, sigma):
    y = np.sort(y)
    z = ibnn.implicit_bias(torch.from_numpy(y), strength(share, slope), slope, sigma=sigma)
    assert (z.diff() >= -EXACT).all()
    # and equal units stay equal
    equal = torch.from_numpy(np.diff(y) == 0)
    assert (z.diff()[equal].abs() <= EXACT).all()


@given(y=rows(), share=SHARES, slope=SLOPES, sigma=SIGMAS, seed=st.integers(0, 1000))
def test_permuted_units_give_the_permuted_solution(y, share, slope, sigma, seed):
    order = np.random.default_rng(seed).permutation(len(y))
    lam = strength(share, slope)
    z = ibnn.implicit_bias(torch.from_numpy(y), lam, slope, sigma=sigma)
    permuted = ibnn.implicit_bias(torch.from_numpy(y[order]), lam, slope, sigma=sigma)
    torch.testing.assert_close(permuted, z[order], rtol=0, atol=EXACT)


@given(y=rows(), share=SHARES, slope=SLOPES, sigma=SIGMAS, shift=st.floats(-5, 5))
def test_a_shift_passes_through_and_a_sign_too(y, share, slope, sigma, shift):
    lam = strength(share, slope)
    z = ibnn.implicit_bias(torch.from_numpy(y), lam, slope, sigma=sigma)
    shifted = ibnn.implicit_bias(torch.from_numpy(y) + shift, lam, slope, sigma=sigma)
    torch.testing.assert_close(shifted, z + shift, rtol=0, atol=20 * EXACT)  # y + shift is rounded
    mirrored = ibnn.implicit_bias(torch.from_numpy(-y), lam, slope, sigma=sigma)
    torch.testing.assert_close(mirrored, -z, rtol=0, atol=EXACT)


@pytest.mark.parametrize("kind", COUPLINGS)
@given(
    y=arrays.arrays(np.float64, (2, UNITS), elements=st.floats(-3, 3, width=32)),
    lam=st.floats(-2, 0),
    slope=SLOPES,
    sigma=SIGMAS,
)
@settings(max_examples=40)
def test_below_zero_the_map_enlarges_no_distance_in_l1_l2_or_linf(kind, y, lam, slope, sigma):
    coupling, shape = COUPLINGS[kind]()
    y = torch.from_numpy(y)
    z = ibnn.implicit_bias(y.reshape(2, *shape), lam, slope, coupling=coupling, sigma=sigma)
    z = z.reshape(2, UNITS)
    for norm in (1, 2, math.inf):
        before = torch.linalg.vector_norm(y[0] - y[1], norm)
        after = torch.linalg.vector_norm(z[0] - z[1], norm)
        assert after <= before + UNITS * EXACT


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_above_zero_it_does_not(share):
    y = torch.tensor([[0.0, 0.0], [0.0, 0.01]], dtype=torch.float64)
    z = ibnn.implicit_bias(y, share * 0.1)
    assert (z[0] - z[1]).norm() > 1.05 * (y[0] - y[1]).norm()


DESCENDING = [
    ibnn.solver.Newton(use_engine=False),
    ibnn.solver.Gradient(),
    ibnn.solver.Gradient("armijo"),
    ibnn.solver.Gradient("wolfe"),
]


@pytest.mark.parametrize("solver", DESCENDING, ids=repr)
@given(y=rows(UNITS, bound=3.0), share=st.floats(-1, 3), sigma=SIGMAS)
@settings(max_examples=15)
def test_the_energy_never_rises_along_the_solver(solver, y, share, sigma):
    lam, y = strength(share, 10.0), torch.from_numpy(y)
    before = ibnn.energy(y, y, lam, sigma=sigma)
    for steps in range(1, 6):
        solution = ibnn.solve(
            y, lam, sigma=sigma, solver=solver, max_steps=steps, on_failure="ignore"
        )
        now = ibnn.energy(solution.value, y, lam, sigma=sigma)
        # rounding of energies whose terms are |lam| UNITS |z| at most
        assert now <= before + 1e-13 * (1 + abs(lam) * UNITS * 10)
        before = torch.minimum(now, before)


NEIGHBOURS = {
    "1e6": lambda y: torch.full_like(y, 1.0) + torch.linspace(0, 1e6, len(y)).to(y),
    "NaN": lambda y: torch.full_like(y, torch.nan),
    "one NaN": lambda y: torch.cat([y[1:], y.new_tensor([torch.nan])]),
    "inf": lambda y: torch.full_like(y, torch.inf),
    "zeros": torch.zeros_like,
}


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
@pytest.mark.parametrize("kind", COUPLINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@given(y=rows(UNITS, bound=3.0), share=SHARES, slope=SLOPES, sigma=SIGMAS)
@settings(max_examples=8)
def test_a_bad_row_leaves_its_neighbours_alone(neighbour, kind, dtype, y, share, slope, sigma):
    coupling, shape = COUPLINGS[kind]()
    lam = strength(share, slope, coupling)
    y = torch.from_numpy(y).to(dtype)
    pair = torch.stack([NEIGHBOURS[neighbour](y), y]).reshape(2, *shape)
    options = {"coupling": coupling, "sigma": sigma, "on_failure": "ignore"}

    def with_gradient(rows):
        rows = rows.clone().requires_grad_()
        solution = ibnn.solve(rows, lam, slope, **options)
        g = torch.cos(torch.arange(UNITS)).to(dtype).reshape(shape)
        (grad,) = torch.autograd.grad((solution.value * g).sum(), rows)
        return solution, grad

    alone, alone_grad = with_gradient(pair[1:])
    beside, beside_grad = with_gradient(pair)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(beside.value[1:], alone.value, rtol=0, atol=tolerance)
    assert beside.converged[1] == alone.converged[0]
    # gradients are promised to 1e-8 and 1e-4 only, but they too see their own row alone
    torch.testing.assert_close(beside_grad[1:], alone_grad, rtol=0, atol=100 * tolerance)
    if neighbour in ("NaN", "one NaN", "inf"):
        assert not beside.converged[0]
        assert not beside.value[0].isfinite().all()
