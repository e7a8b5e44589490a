"""implicit_bias, solve, energy and residual as functions of tensors of any shape."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
import torch

import ibnn
from tests import bank, library, oracle

COUPLED = bank.batches(bank.coupled())


def test_implicit_bias_and_solve_take_the_same_arguments():
    assert (
        inspect.signature(ibnn.implicit_bias).parameters == inspect.signature(ibnn.solve).parameters
    )
    names = "y lam slope coupling sigma solver adjoint start engine atol rtol max_steps on_failure"
    assert list(inspect.signature(ibnn.solve).parameters) == names.split()


@pytest.mark.parametrize("batch", COUPLED, ids=str)
def test_energy_and_residual_are_the_oracles(batch):
    rng = np.random.default_rng(0)
    z = batch.y + 0.1 * rng.standard_normal(batch.y.shape)
    y = library.tensor(batch)
    settings = {"coupling": library.coupling(batch.coupling), "sigma": batch.sigma}
    weights = batch.coupling.weights
    energy = ibnn.energy(
        torch.from_numpy(z).reshape(y.shape), y, batch.lam, batch.slope, **settings
    )
    residual = ibnn.residual(
        torch.from_numpy(z).reshape(y.shape), y, batch.lam, batch.slope, **settings
    )
    assert energy.shape == (len(y),)
    assert residual.shape == y.shape
    common = (batch.lam, batch.slope, weights, batch.sigma)
    for k, (zk, yk) in enumerate(zip(z, batch.y, strict=True)):
        # sums of 24^2 terms, with weights that add up to at most 8
        expected = oracle.energy_row(zk, yk, *common)
        assert float(energy[k]) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(
            residual[k].reshape(-1), oracle.residual_row(zk, yk, *common), rtol=1e-12, atol=1e-13
        )


def test_the_residual_is_the_gradient_of_the_energy():
    for batch in COUPLED[::5]:
        y = library.tensor(batch)
        z = (y + 0.05 * torch.cos(torch.arange(y.numel()).reshape(y.shape))).requires_grad_()
        settings = {"coupling": library.coupling(batch.coupling), "sigma": batch.sigma}
        energy = ibnn.energy(z, y, batch.lam, batch.slope, **settings)
        (grad,) = torch.autograd.grad(energy.sum(), z)
        residual = ibnn.residual(z, y, batch.lam, batch.slope, **settings)
        torch.testing.assert_close(grad, residual, rtol=1e-11, atol=1e-12)


def test_the_solution_has_the_lowest_energy():
    for batch in COUPLED[::7]:
        y = library.tensor(batch)
        settings = {"coupling": library.coupling(batch.coupling), "sigma": batch.sigma}
        z = ibnn.implicit_bias(y, batch.lam, batch.slope, **settings)
        lowest = ibnn.energy(z, y, batch.lam, batch.slope, **settings)
        for k in range(1, 6):
            near = z + 0.01 * k * torch.sin(torch.arange(z.numel()) * k).reshape(z.shape)
            assert (ibnn.energy(near, y, batch.lam, batch.slope, **settings) > lowest).all(), batch


@pytest.mark.parametrize("dims", [-1, 0, 1, (0, 2), (2, 0), (-2, -1), (0, 1, 2)])
def test_dims_name_the_units_and_the_rest_are_rows(dims, generator):
    y = torch.randn(3, 4, 5, dtype=torch.float64, generator=generator)
    solution = ibnn.solve(y, -0.2, coupling=ibnn.Uniform(dims))
    units = [d % 3 for d in ((dims,) if isinstance(dims, int) else dims)]
    rows = [d for d in range(3) if d not in units]
    assert solution.value.shape == y.shape
    assert solution.converged.shape == solution.steps.shape == solution.residual.shape
    assert solution.converged.shape == tuple(y.shape[d] for d in rows)
    flat_y = y.permute(*rows, *units).reshape(solution.converged.numel(), -1).numpy()
    flat_z = solution.value.permute(*rows, *units).reshape(flat_y.shape).numpy()
    for yk, zk in zip(flat_y, flat_z, strict=True):
        np.testing.assert_allclose(zk, oracle.solve_row(yk, -0.2, 10.0), atol=1e-10, rtol=0)


def test_one_row_needs_no_batch():
    y = torch.tensor([-0.1, 0.0, 0.1], dtype=torch.float64)
    solution = ibnn.solve(y, -0.2)
    assert solution.converged.shape == ()
    assert torch.equal(solution.value, ibnn.implicit_bias(y[None], -0.2)[0])


def test_memory_layout_does_not_matter(generator):
    y = torch.randn(6, 4, dtype=torch.float64, generator=generator)
    expected = ibnn.implicit_bias(y.T.contiguous(), -0.2)
    repeated = y[:1].expand(3, 4)
    for value, wanted in (
        (ibnn.implicit_bias(y.T, -0.2), expected),
        (ibnn.implicit_bias(y, -0.2, coupling=ibnn.Uniform(0)), expected.T),
        (ibnn.implicit_bias(repeated, -0.2)[2:], ibnn.implicit_bias(y[:1], -0.2)),
    ):
        # sums may run in another order
        torch.testing.assert_close(value, wanted, rtol=0, atol=1e-12)


def test_the_input_is_left_alone(generator):
    y = torch.randn(3, 8, generator=generator)
    before = y.clone()
    z = ibnn.implicit_bias(y, -0.2)
    z0 = ibnn.implicit_bias(y, 0.0)
    assert torch.equal(y, before)
    assert z.data_ptr() != y.data_ptr() != z0.data_ptr()


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3)])
def test_one_lam_and_slope_per_channel(shape, generator):
    y = 0.3 * torch.randn(*shape, 6, dtype=torch.float64, generator=generator)
    lam = torch.tensor([-0.5, 0.0, 0.05], dtype=torch.float64)
    slope = torch.tensor([1.0, 10.0, 12.0], dtype=torch.float64)
    z = ibnn.implicit_bias(y, lam, slope)
    for k in range(3):
        alone = ibnn.implicit_bias(y[..., k, :], float(lam[k]), float(slope[k]))
        torch.testing.assert_close(z[..., k, :], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("value", [-0.2, torch.tensor(-0.2), torch.tensor([-0.2])])
def test_a_scalar_is_a_number_or_a_tensor_of_one(value):
    y = torch.tensor([[-0.1, 0.0, 0.1], [1.0, 2.0, 3.0]])
    torch.testing.assert_close(ibnn.implicit_bias(y, value), ibnn.implicit_bias(y, -0.2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_solved_in_float32_and_cast_back(dtype, generator):
    y = torch.randn(4, 20, generator=generator).to(dtype)
    z = ibnn.implicit_bias(y, -0.2)
    assert z.dtype == dtype
    assert torch.equal(z, ibnn.implicit_bias(y.float(), -0.2).to(dtype))


def test_tighter_tolerances_cost_steps_and_give_digits(generator):
    y = torch.randn(1, 30, dtype=torch.float64, generator=generator)
    solver = ibnn.solver.Gradient()
    exact = ibnn.implicit_bias(y, -0.5)
    errors, steps = [], []
    for atol in (1e-2, 1e-5, 1e-8):
        solution = ibnn.solve(y, -0.5, solver=solver, atol=atol, rtol=0.0)
        errors.append(float((solution.value - exact).abs().max()))
        steps.append(int(solution.steps))
        assert errors[-1] <= atol
    assert errors == sorted(errors, reverse=True)
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def test_a_start_does_not_change_the_answer(generator):
    y = torch.randn(3, 30, dtype=torch.float64, generator=generator)
    for lam in (-1.0, 0.095):
        z = ibnn.implicit_bias(y, lam)
        far = ibnn.implicit_bias(y, lam, start=5 * torch.cos(torch.arange(90.0)).reshape(3, 30))
        torch.testing.assert_close(far, z, rtol=0, atol=1e-10)


_MEMORY = """
import resource, torch, ibnn

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def work(y):
    y = y.clone().requires_grad_()
    for options in {options}:
        ibnn.implicit_bias(y, -0.1, **options).square().sum().backward()
    ibnn.residual(y, y, -0.1)

work({y}[:, :64])
before = most()
work({y})
print(most() - before)
"""


@pytest.mark.parametrize(
    ("y", "options", "allowed"),
    [
        # 20,000^2 float32 numbers are 1.6 GB; what is needed is a few blocks of some MB
        (
            "torch.linspace(-1, 1, 20_000)[None]",
            "({}, {'engine': 'portable'}, {'coupling': ibnn.Window(5)})",
            400e6,
        ),
        # a unit far away: too wide for a grid. 2,000^2 doubles are 32 MB, and one is not enough
        (
            "torch.cat([torch.linspace(-1, 1, 1999), torch.tensor([100.0])])[None].double()",
            "({'engine': 'portable'},)",
            60e6,
        ),
    ],
)
def test_long_rows_make_nothing_of_size_d_by_d(y, options, allowed):
    pytest.importorskip("resource")
    script = _MEMORY.replace("{y}", y).replace("{options}", options)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < allowed
