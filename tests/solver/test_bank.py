"""Every solver, coupling and sigma through the bank: solved as promised, or said not to be."""

import numpy as np
import pytest
import torch

import ibnn
from ibnn.solver import Anderson, Broyden, Gradient, Lite, Newton, Picard
from tests import bank, library, oracle

PRECISIONS = list(library.DTYPES)
# The steps an ordinary run grants: what they are too few for is reported as not converged, which
# is what is tested. The slow run grants the default of each solver.
SOLVERS = {
    Newton(): 60,
    Newton(use_engine=False): 60,
    Gradient(): 60,
    Gradient("armijo"): 25,
    Gradient("wolfe"): 25,
    Picard(): 70,
    Anderson(): 40,
    Broyden(): 40,
}
# Where contraction is mild, |lam| * slope * mu <= 0.5 * 2: every solver must get there.
MILD_LAM = bank.exact(-0.05)


def name(solver):
    return repr(solver).replace("()", "")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("batch", bank.batches(bank.grid()), ids=str)
def test_the_default_solver_solves_the_grid(batch, precision):
    solution = library.solve(batch, precision)
    assert solution.converged.all()
    assert not library.wrong_rows(batch, solution.value, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("sigma", ["hardtanh", "arctan", "erf"])
def test_the_default_solver_solves_the_grid_of_every_sigma(sigma, precision):
    for batch in bank.batches(bank.grid(sigma, sizes=(3,))):
        solution = library.solve(batch, precision)
        assert solution.converged.all(), batch
        assert not library.wrong_rows(batch, solution.value, precision)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("sigma", ["hardtanh", "arctan", "erf"])
def test_the_default_solver_solves_the_long_grid_of_every_sigma(sigma, precision):
    for batch in bank.batches(bank.grid(sigma)):
        solution = library.solve(batch, precision)
        assert solution.converged.all(), batch
        assert not library.wrong_rows(batch, solution.value, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("batch", bank.batches(bank.coupled()), ids=str)
def test_the_default_solver_solves_every_coupling_and_sigma(batch, precision):
    solution = library.solve(batch, precision)
    assert solution.converged.all()
    assert not library.wrong_rows(batch, solution.value, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_default_solver_meets_the_closed_forms(precision):
    for batch in bank.batches(bank.limits()):
        solution = library.solve(batch, precision)
        assert solution.converged.all(), batch
        assert not library.wrong_rows(batch, solution.value, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("problem", bank.stored(), ids=str)
def test_the_default_solver_finds_the_stored_answers(problem, precision):
    batch = bank.Batch((problem,))
    solution = library.solve(batch, precision)
    assert solution.converged.all()
    assert not library.wrong_rows(batch, solution.value, precision)


def never_silently_wrong(solver, precision, max_steps, batches):
    for batch in batches:
        solution = library.solve(batch, precision, solver=solver, max_steps=max_steps)
        excess = library.excess(batch, solution.value, precision)
        silent = solution.converged.numpy() & ~(excess <= 1)
        assert not silent.any(), f"{batch}: error {excess} of the allowed one, said to be solved"
        assert solution.value.isfinite().all(), batch


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_no_solver_is_silently_wrong(solver, precision):
    batches = bank.batches([*bank.coupled(), *bank.limits()])
    half = batches[PRECISIONS.index(precision) :: 2]  # the slow run sees all in both precisions
    never_silently_wrong(solver, precision, SOLVERS[solver], half)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_no_solver_is_silently_wrong_after_many_more_steps(solver, precision):
    batches = bank.batches([*bank.coupled(), *bank.limits()])
    usual = SOLVERS[solver]
    never_silently_wrong(solver, precision, usual and 5 * usual, batches)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_every_solver_solves_what_is_easy(solver, precision):
    easy = [p for p in bank.coupled() if p.lam == MILD_LAM and "dense" not in str(p.coupling)]
    assert len(easy) == 4 * 4 * 4
    for batch in bank.batches(easy):
        solution = library.solve(batch, precision, solver=solver)
        assert solution.converged.all(), batch
        assert not library.wrong_rows(batch, solution.value, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_lite_is_one_explicit_step_and_says_what_it_missed(precision):
    for batch in bank.batches(bank.coupled()):
        y = library.tensor(batch, precision)
        solution = library.solve(batch, precision, solver=Lite())
        step = ibnn.residual(
            y,
            y,
            batch.lam,
            batch.slope,
            coupling=library.coupling(batch.coupling),
            sigma=batch.sigma,
        )
        eps = torch.finfo(y.dtype).eps
        # the same sums, once with slope and once without: a few roundings apart
        torch.testing.assert_close(solution.value, y - step, rtol=8 * eps, atol=8 * eps)
        silent = solution.converged.numpy() & ~(
            library.excess(batch, solution.value, precision) <= 1
        )
        assert not silent.any(), batch


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_the_best_iterate_comes_back_however_early_it_is_stopped(solver):
    hard = [p for p in bank.coupled() if p.coupling is bank.UNIFORM and p.sigma == "tanh"]
    for batch in bank.batches(hard):
        before = np.full(len(batch.y), np.inf)
        for max_steps in (0, 1, 2, 3, 5, 8, 13):
            solution = library.solve(batch, "float64", solver=solver, max_steps=max_steps)
            assert (solution.steps <= max_steps).all()
            z = solution.value.numpy()
            worst = [
                np.abs(oracle.residual_row(zi, yi, batch.lam, batch.slope)).max()
                for zi, yi in zip(z, batch.y, strict=True)
            ]
            # What is said of z is true of z, up to the rounding of terms of size |y| <= 10. The
            # compiled engine counts the last shift, which gives z the mean of y, on top: no less
            # than the truth, and no more than twice the mean of a residual it had solved for.
            told, atol = solution.residual.numpy(), 1e-14
            solved = solution.converged.numpy() * 2e-12  # twice what doubles are solved to
            assert (told >= np.multiply(worst, 1 - 1e-9) - atol).all()
            assert (told <= np.multiply(worst, 1 + 1e-9) + atol + solved).all()
            # best by residual over allowed residual, and the allowed one differs among units
            allowed = 1 + np.abs(batch.y).max(axis=1)
            assert (np.array(worst) <= before * allowed + 1e-14).all()
            before = np.minimum(before, worst)


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_each_row_stops_by_itself(solver):
    y = torch.tensor([[0.5, 0.5, 0.5], [-0.1, 0.05, 0.2], [-5, 0.0, 5.0]], dtype=torch.float64)
    together = ibnn.solve(y, -0.08, solver=solver)
    assert together.converged.all()
    assert together.steps[0] == 0
    alone = [int(ibnn.solve(row, -0.08, solver=solver).steps) for row in y]
    assert together.steps.tolist() == alone


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_a_start_at_the_solution_needs_no_step(solver):
    y = torch.linspace(-0.3, 0.4, 8, dtype=torch.float64)[None]
    z = ibnn.implicit_bias(y, -0.3)
    solution = ibnn.solve(y, -0.3, solver=solver, start=z)
    assert solution.steps.item() == 0
    assert torch.equal(solution.value, z) or (solution.value - z).abs().max() < 1e-15


@pytest.mark.parametrize("adjoint", ["implicit", "unrolled"])
@pytest.mark.parametrize("solver", [*SOLVERS, Lite()], ids=name)
def test_autocast_changes_no_step(solver, adjoint, generator):
    y = (0.3 * torch.randn(3, 12, generator=generator)).requires_grad_()
    options = {"solver": solver, "adjoint": adjoint, "on_failure": "ignore"}

    def steps():
        found = ibnn.solve(y, -0.05, **options)
        return found.value, found.steps, found.residual

    expected = steps()
    with torch.autocast("cpu", torch.bfloat16):
        found = steps()
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    grads = [torch.autograd.grad(z.square().sum(), y)[0] for z, *_ in (found, expected)]
    assert torch.equal(*grads)


def test_solvers_can_be_named_and_a_user_may_bring_one():
    class Twice(ibnn.solver.Solver):
        name = "newton, twice"

        def find(self, system, start, max_steps):
            inner = Newton(use_engine=False)
            return inner.find(system, inner.find(system, start, max_steps).z, max_steps)

    y = torch.linspace(-0.3, 0.4, 8, dtype=torch.float64).requires_grad_()
    expected = ibnn.implicit_bias(y, -0.3)
    for solver in (*ibnn.solver.names()[:2], Twice()):
        z = ibnn.implicit_bias(y, -0.3, solver=solver)
        torch.testing.assert_close(z, expected, rtol=0, atol=1e-11)
        torch.autograd.grad(z.sum(), y)


def test_options_of_programs_exported_before_their_renaming_are_read():
    assert ibnn.solver.lookup('newton{"reduce":false}') == Newton(use_engine=False)
