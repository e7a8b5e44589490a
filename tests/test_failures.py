"""What goes wrong is told, at once and in words; nothing hangs and nothing is silently wrong."""

import warnings

import pytest
import torch

import ibnn
from ibnn import ConvergenceError, ConvergenceWarning
from ibnn.engine.native import loader
from tests.parts import Softsign

SOLVERS = ["newton", "gradient", "picard", "anderson", "broyden"]
COUPLINGS = [ibnn.Uniform(-1), ibnn.Window(3), ibnn.Dense(units=6)]


class Unhashable(Softsign):
    __hash__ = None  # type: ignore[assignment]  # as a dataclass that is not frozen


def row(dtype=torch.float64):
    return torch.tensor([-0.52, -0.41, -0.13, 0.02, 0.24, 0.71], dtype=dtype)


def test_one_step_is_not_enough_and_says_so():
    y = torch.stack([row(), torch.zeros(6, dtype=torch.float64)])
    with pytest.warns(ConvergenceWarning, match=r"1 of 2 rows did not converge \(worst residual"):
        solution = ibnn.solve(y, -2.0, max_steps=1)
    assert solution.converged.tolist() == [False, True]
    assert solution.residual[0] > 1e-6
    assert solution.steps.tolist() == [1, 0]


def test_a_failure_can_be_an_error_a_warning_or_nothing():
    with pytest.raises(ConvergenceError, match="1 of 1 rows did not converge"):
        ibnn.implicit_bias(row(), -2.0, max_steps=1, on_failure="raise")
    with pytest.warns(ConvergenceWarning):
        warned = ibnn.implicit_bias(row(), -2.0, max_steps=1)
    ignored = ibnn.implicit_bias(row(), -2.0, max_steps=1, on_failure="ignore")
    assert torch.equal(warned, ignored)


def test_unrolled_and_lite_steps_follow_the_same_rules():
    with pytest.raises(ConvergenceError):
        ibnn.implicit_bias(row(), -2.0, max_steps=1, adjoint="unrolled", on_failure="raise")
    # Lite promises nothing, so there is nothing to report; its record is honest
    solution = ibnn.solve(row(), -2.0, solver="lite", on_failure="raise")
    assert not solution.converged


@pytest.mark.parametrize("max_steps", [3, 200])
@pytest.mark.parametrize("lam", [-0.3, 0.05, 0.5])
def test_an_unrolled_layer_leaves_the_record_of_its_steps(lam, max_steps):
    """Over all rows, what `solve` has of each; 0.5 is above the threshold."""
    y = torch.stack([row(), row() / 10])
    options = {"solver": "picard", "adjoint": "unrolled", "max_steps": max_steps}
    options["on_failure"] = "ignore"
    bias = ibnn.ImplicitBias(0.0, learn_lam=False, **options).double()
    bias.lam.fill_(lam)
    solution = ibnn.solve(y, bias.lam, **options)
    assert torch.equal(bias(y), solution.value)
    record = bias.last_solve
    assert record.converged == solution.converged.double().mean()
    assert record.residual == solution.residual.max()
    assert record.steps == solution.steps.max()
    assert record.unique == solution.unique.double().mean()


def test_an_unrolled_layer_warns_once_by_its_name():
    model = torch.nn.Sequential(ibnn.ImplicitBias(-2.0, adjoint="unrolled", max_steps=1))
    with pytest.warns(ConvergenceWarning, match=r"layer '0' \(ImplicitBias\): 1 of 1 rows"):
        model(row())
    model(row())  # warnings are errors here
    model[0].on_failure = "raise"
    with pytest.raises(ConvergenceError, match="layer '0'"):
        model(row() / 2)
    assert model[0].last_solve.converged == 0


def test_a_layer_that_takes_one_explicit_step_shows_no_record():
    bias = ibnn.ImplicitBias(-0.1)
    bias(row())
    assert bias.last_solve is not None
    bias.solver = "lite"
    bias(row())
    assert bias.last_solve is None


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
@pytest.mark.parametrize("lam", [-50.0, 0.5, 5.0, 500.0])
def test_far_beyond_the_threshold_every_solver_ends_and_is_honest(lam, coupling, solver):
    y = torch.stack([row(), 3 * row()])
    solution = ibnn.solve(
        y, lam, coupling=coupling, solver=solver, max_steps=60, on_failure="ignore"
    )
    assert solution.value.isfinite().all()
    residual = ibnn.residual(solution.value, y, lam, coupling=coupling).abs().amax(-1)
    torch.testing.assert_close(solution.residual, residual, rtol=1e-6, atol=1e-10 * (1 + abs(lam)))
    # what is said to be solved solves the equation, to the rounding of terms of size |lam|
    assert (residual[solution.converged] <= 1e-11 * (1 + abs(lam))).all()


def test_above_the_threshold_the_backward_solve_tells_of_its_failure():
    # near the middle of two attractors J is not positive definite: conjugate gradients must stop
    y = torch.zeros(1, 6, dtype=torch.float64, requires_grad=True)
    for coupling in COUPLINGS:
        z = ibnn.implicit_bias(y, 5.0, coupling=coupling, on_failure="warn")
        g = torch.linspace(-1, 1, 6, dtype=torch.float64)
        # the compiled engine knows why
        known = coupling is COUPLINGS[0] and loader.available()
        told = "are at a saddle of the energy" if known else "did not converge"
        with pytest.warns(ConvergenceWarning, match=f"backward: 1 of 1 rows {told} "):
            torch.autograd.grad((z * g).sum(), y)
        z = ibnn.implicit_bias(y, 5.0, coupling=coupling, on_failure="raise")
        with pytest.raises(ConvergenceError, match="backward"):
            torch.autograd.grad((z * g).sum(), y)


def test_a_row_that_is_not_finite_does_not_hide_the_failure_of_another():
    y = torch.zeros(2, 6, dtype=torch.float64)
    y[1] = torch.nan
    y.requires_grad_()
    g = torch.linspace(-1, 1, 6, dtype=torch.float64)
    with pytest.warns(ConvergenceWarning, match="1 of 2 rows are not finite"):
        z = ibnn.implicit_bias(y, 0.5, sigma=Softsign())  # the other is at a saddle
    with pytest.warns(ConvergenceWarning, match="backward: 1 of 2 rows did not converge"):
        torch.autograd.grad((z * g).sum(), y)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("adjoint", ["implicit", "unrolled"])
def test_a_row_that_is_not_finite_is_not_finite_at_once(bad, coupling, solver, adjoint):
    y = torch.stack([row(), row()])
    y[0, 2] = bad
    options = {"coupling": coupling, "solver": solver, "adjoint": adjoint}
    with pytest.warns(ConvergenceWarning, match="1 of 2 rows are not finite"):
        solution = ibnn.solve(y, -0.05, **options)
    assert not solution.value[0].isfinite().all()
    assert solution.value[1].isfinite().all()
    assert solution.converged.tolist() == [False, True]
    assert solution.steps[0] == 0
    assert not solution.residual[0].isfinite()
    with pytest.raises(ConvergenceError, match="not finite"):
        ibnn.implicit_bias(y, -0.05, on_failure="raise", **options)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
@pytest.mark.parametrize("max_steps", [0, 1, 50])
@pytest.mark.parametrize("engine", [None, "portable"])
def test_a_row_that_is_not_finite_is_nan_however_few_steps_are_allowed(coupling, max_steps, engine):
    y = torch.stack([row(), row()])
    y[0, 2] = torch.inf
    options = {"coupling": coupling, "max_steps": max_steps, "engine": engine}
    solution = ibnn.solve(y, -0.05, on_failure="ignore", **options)
    assert solution.value[0].isnan().all()
    assert solution.value[1].isfinite().all()
    assert not solution.converged[0]


def test_lam_and_slope_that_are_not_finite_spoil_their_own_channel():
    y = torch.stack([row(), row()])
    for lam, slope in (
        (torch.tensor([torch.nan, -0.1]), 10.0),
        (-0.1, torch.tensor([torch.inf, 10.0])),
    ):
        solution = ibnn.solve(y, lam, slope, on_failure="ignore")
        assert solution.converged.tolist() == [False, True]
        assert solution.value[0].isnan().all()


def test_units_so_large_that_their_sum_overflows_are_still_finite():
    y = torch.full((1, 6), 3e38)
    assert torch.equal(ibnn.implicit_bias(y, -0.1, slope=1.0), y)


@pytest.mark.parametrize("coupling", [ibnn.Uniform(-1), ibnn.Window(3), ibnn.Uniform((1, 2))])
@pytest.mark.parametrize("adjoint", ["implicit", "unrolled", "jfb"])
@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (3, 4, 0), (0, 0, 0), (3, 4, 1)])
def test_nothing_in_nothing_out(shape, adjoint, coupling):
    y = torch.zeros(shape, requires_grad=True)
    lam = torch.tensor(-0.1, requires_grad=True)
    slope = torch.tensor(10.0, requires_grad=True)
    solution = ibnn.solve(y, lam, slope, coupling=coupling, adjoint=adjoint)
    assert solution.value.shape == y.shape
    assert solution.converged.all()
    solution.value.sum().backward()
    assert y.grad is not None
    assert y.grad.shape == y.shape
    assert lam.grad == 0
    assert slope.grad == 0
    assert ibnn.energy(y, y, -0.1, coupling=coupling).sum() == 0
    assert ibnn.residual(y, y, -0.1, coupling=coupling).shape == y.shape


@pytest.mark.parametrize("solver", ["newton", "lite", "picard"])
@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (2, 0, 4)])
def test_a_learnt_window_has_no_gradient_without_units(shape, solver):
    window = ibnn.Window(3, "gaussian", learnable=True)
    y = torch.zeros(shape, requires_grad=True)
    ibnn.implicit_bias(y, -0.1, coupling=window, solver=solver).sum().backward()
    assert window.std.grad == 0


def test_layers_take_an_empty_batch():
    for layer, shape in (
        (ibnn.Linear(3, 4, lam=-0.1), (0, 3)),
        (ibnn.Conv2d(1, 2, 3, lam=-0.1), (0, 1, 5, 5)),
    ):
        out = layer(torch.zeros(shape))
        assert out.shape[0] == 0
        out.sum().backward()
        assert layer.last_solve is not None
        assert layer.last_solve.converged == 1


REFUSED = {
    "y is no tensor": (
        lambda: ibnn.implicit_bias([1.0, 2.0], 0.1),
        TypeError,
        "y must be a tensor, got list",
    ),
    "y of integers": (lambda: ibnn.implicit_bias(torch.arange(3), 0.1), TypeError, "y .*int64"),
    "y of booleans": (lambda: ibnn.implicit_bias(torch.ones(3) > 0, 0.1), TypeError, "y .*bool"),
    "complex y": (lambda: ibnn.implicit_bias(torch.ones(3) * 1j, 0.1), TypeError, "y .*complex"),
    "no unit dim": (lambda: ibnn.implicit_bias(torch.tensor(1.0), 0.1), ValueError, "dims"),
    "dims out of range": (
        lambda: ibnn.implicit_bias(row(), 0.1, coupling=ibnn.Uniform(1)),
        ValueError,
        r"dims=\(1,\) are out of range for y of shape \(6,\)",
    ),
    "dims out of range below": (
        lambda: ibnn.implicit_bias(row(), 0.1, coupling=ibnn.Uniform(-2)),
        ValueError,
        r"dims=\(-2,\) are out of range",
    ),
    "the same dim twice": (
        lambda: ibnn.implicit_bias(row(), 0.1, coupling=ibnn.Uniform((0, -1))),
        ValueError,
        "twice",
    ),
    "window on too few dims": (
        lambda: ibnn.implicit_bias(row(), 0.1, coupling=ibnn.Window((3, 3))),
        ValueError,
        "out of range",
    ),
    "dense of another size": (
        lambda: ibnn.implicit_bias(row(), 0.1, coupling=ibnn.Dense(units=5)),
        ValueError,
        "5 units, but y has 6",
    ),
    "no coupling": (
        lambda: ibnn.implicit_bias(row(), 0.1, coupling="space"),
        TypeError,
        "coupling must be .*'space'",
    ),
    "lam of the wrong length": (
        lambda: ibnn.implicit_bias(torch.zeros(2, 3, 6), torch.zeros(2)),
        ValueError,
        r"lam has shape \(2,\); expected a scalar or 3 values, one per channel",
    ),
    "lam per channel without channels": (
        lambda: ibnn.implicit_bias(row(), torch.zeros(2)),
        ValueError,
        r"lam has shape \(2,\); expected a scalar",
    ),
    "lam of two dims": (
        lambda: ibnn.implicit_bias(torch.zeros(3, 6), torch.zeros(3, 1)),
        ValueError,
        r"lam has shape \(3, 1\)",
    ),
    "slope of the wrong length": (
        lambda: ibnn.implicit_bias(torch.zeros(3, 6), 0.1, torch.ones(4)),
        ValueError,
        r"slope has shape \(4,\)",
    ),
    "lam of integers": (
        lambda: ibnn.implicit_bias(row(), torch.tensor(1)),
        TypeError,
        "lam must be a number or a floating-point tensor, got torch.int64",
    ),
    "lam as text": (lambda: ibnn.implicit_bias(row(), "0.1"), TypeError, "lam must be .*str"),
    "lam not finite": (lambda: ibnn.implicit_bias(row(), torch.inf), ValueError, "lam .*inf"),
    "lam too large for the dtype": (
        lambda: ibnn.implicit_bias(row().float(), -1e40),
        ValueError,
        r"^lam must be finite in torch\.float32, got -1e\+40$",
    ),
    "slope too large for the dtype": (
        lambda: ibnn.implicit_bias(row().half(), -0.1, 10**400),
        ValueError,
        r"^slope must be positive and finite in torch\.float32, got a int$",
    ),
    "sparse y": (
        lambda: ibnn.implicit_bias(torch.eye(3).to_sparse(), 0.1),
        TypeError,
        r"^y must be a dense tensor, got one of layout torch\.sparse_coo$",
    ),
    "slope zero": (lambda: ibnn.implicit_bias(row(), 0.1, 0.0), ValueError, "slope .*0.0"),
    "slope negative": (
        lambda: ibnn.implicit_bias(row(), 0.1, torch.tensor(-1.0)),
        ValueError,
        "slope must be positive, got -1",
    ),
    **{
        f"slope negative, {name}={value}": (
            lambda name=name, value=value: ibnn.implicit_bias(
                torch.stack([row(), row()]), 0.1, torch.tensor([2.0, -1.0]), **{name: value}
            ),
            ValueError,
            "slope must be positive, got -1",
        )
        for name, value in (("adjoint", "unrolled"), ("solver", "lite"))
    },
    "start as a number": (
        lambda: ibnn.implicit_bias(row(), 0.1, start=0.0),
        TypeError,
        r"start must be a tensor of y's shape \(6,\), got float",
    ),
    "start of another shape": (
        lambda: ibnn.implicit_bias(row(), 0.1, start=torch.zeros(5)),
        ValueError,
        r"start must have y's shape \(6,\), got \(5,\)",
    ),
    "complex start": (
        lambda: ibnn.implicit_bias(row(), 0.1, start=torch.zeros(6) * 1j),
        TypeError,
        r"^start must be real, as y is, got torch\.complex64$",
    ),
    "energy of a complex z": (
        lambda: ibnn.energy(torch.zeros(6) * 1j, row(), 0.1),
        TypeError,
        r"^z must be real, as y is, got torch\.complex64$",
    ),
    "energy of another shape": (
        lambda: ibnn.energy(torch.zeros(5), row(), 0.1),
        ValueError,
        r"z must have y's shape \(6,\), got \(5,\)",
    ),
    "energy at a list": (
        lambda: ibnn.energy([0.0] * 6, row(), 0.1),
        TypeError,
        r"z must be a tensor of y's shape \(6,\), got list",
    ),
    "energy of a list": (
        lambda: ibnn.energy([0.0], [1.0], 0.1),
        TypeError,
        "y must be a tensor, got list",
    ),
    "residual with a coupling by name": (
        lambda: ibnn.residual(row(), row(), 0.1, coupling="space"),
        TypeError,
        "coupling must be an ibnn coupling, such as .*, got 'space' .names are for convolutions",
    ),
    "unknown solver": (
        lambda: ibnn.implicit_bias(row(), 0.1, solver="bfgs"),
        ValueError,
        "solver='bfgs'.*gradient.*newton.*picard",
    ),
    "solver of another kind": (
        lambda: ibnn.implicit_bias(row(), 0.1, solver=3),
        TypeError,
        "solver must be",
    ),
    "unknown adjoint": (
        lambda: ibnn.implicit_bias(row(), 0.1, adjoint="exact"),
        ValueError,
        "adjoint='exact'.*implicit.*unrolled.*jfb",
    ),
    "unknown on_failure": (
        lambda: ibnn.implicit_bias(row(), 0.1, on_failure="pray"),
        ValueError,
        "on_failure='pray'.*raise.*warn.*ignore",
    ),
    "negative atol": (lambda: ibnn.implicit_bias(row(), 0.1, atol=-1.0), ValueError, "atol .*-1.0"),
    "atol as text": (
        lambda: ibnn.implicit_bias(row(), 0.1, atol="1e-6"),
        ValueError,
        "atol must be a non-negative number, got '1e-6'",
    ),
    "rtol of a layer as a tensor": (
        lambda: ibnn.Linear(2, 2, rtol=torch.tensor(1e-6)),
        ValueError,
        "rtol must be a non-negative number, got tensor",
    ),
    "max_steps as a bool": (
        lambda: ibnn.implicit_bias(row(), 0.1, max_steps=True),
        ValueError,
        "max_steps must be a non-negative int, got True",
    ),
    "an engine as an object": (
        lambda: ibnn.implicit_bias(row(), 0.1, engine=ibnn.engines()["native"]),
        TypeError,
        r"^engine must be a name, one of \['native', [^\]]*\], got a NativeEngine$",
    ),
    "an unknown engine": (
        lambda: ibnn.implicit_bias(row(), 0.1, engine="warp"),
        ValueError,
        r"^engine='warp' is not known; expected one of \['native', [^\]]*\]$",
    ),
    "rtol NaN": (lambda: ibnn.implicit_bias(row(), 0.1, rtol=torch.nan), ValueError, "rtol .*nan"),
    "max_steps negative": (
        lambda: ibnn.implicit_bias(row(), 0.1, max_steps=-1),
        ValueError,
        "max_steps .*-1",
    ),
    "max_steps not whole": (
        lambda: ibnn.implicit_bias(row(), 0.1, max_steps=1.5),
        ValueError,
        "max_steps .*1.5",
    ),
    "unknown keyword": (
        lambda: ibnn.implicit_bias(row(), 0.1, lambda_=1),
        TypeError,
        "lambda_",
    ),
    "unknown keyword of a layer": (
        lambda: ibnn.Linear(2, 2, lamda=0.1),
        TypeError,
        "unexpected keyword argument 'lamda'",
    ),
    "unknown keyword of a convolution": (
        lambda: ibnn.Conv2d(2, 2, 3, strides=2),
        TypeError,
        "strides",
    ),
    "unknown keyword of F": (lambda: ibnn.ImplicitBias(lamb=0.1), TypeError, "lamb"),
    "unknown named coupling": (
        lambda: ibnn.Conv2d(2, 2, 3, coupling="time"),
        ValueError,
        "coupling='time'.*space.*channels.*layer",
    ),
    "a name where there is no space": (
        lambda: ibnn.Linear(2, 2, coupling="space"),
        TypeError,
        "coupling must be .*'space'",
    ),
    "unknown solver of a layer": (lambda: ibnn.Linear(2, 2, solver="bfgs"), ValueError, "bfgs"),
    "unknown adjoint of a layer": (lambda: ibnn.Linear(2, 2, adjoint="x"), ValueError, "adjoint"),
    "unknown on_failure of a layer": (
        lambda: ibnn.Linear(2, 2, on_failure="x"),
        ValueError,
        "on_failure",
    ),
    "lam of the wrong length for a layer": (
        lambda: ibnn.Conv2d(2, 4, 3, lam=[0.1, 0.2]),
        ValueError,
        r"lam has shape \(2,\); expected one number or one per channel \(4\)",
    ),
    "lam per channel across channels": (
        lambda: ibnn.Conv2d(2, 4, 3, lam=[0.1] * 4, coupling="channels"),
        ValueError,
        r"lam has shape \(4,\); expected one number",
    ),
    "slope per channel of the whole layer": (
        lambda: ibnn.Conv2d(2, 4, 3, slope=[1.0] * 4, coupling="layer"),
        ValueError,
        "slope has shape",
    ),
    "lam per unit of a linear layer": (
        lambda: ibnn.Linear(2, 4, lam=[0.1] * 4),
        ValueError,
        "lam has shape",
    ),
    "lam of a layer as text": (lambda: ibnn.Linear(2, 4, lam="a"), TypeError, "lam must be"),
    "lam of a layer not finite": (
        lambda: ibnn.Linear(2, 4, lam=torch.inf),
        ValueError,
        "lam must be finite, got inf",
    ),
    "slope of a layer not positive": (
        lambda: ibnn.Linear(2, 4, slope=-1.0),
        ValueError,
        "slope must be positive, got -1.0",
    ),
    "a step rule nobody knows": (
        lambda: ibnn.solver.Gradient("exact"),
        ValueError,
        "step_rule='exact'",
    ),
    "no halving at all": (lambda: ibnn.solver.Newton(halvings=0), ValueError, "halvings .*got 0"),
    "a tolerance as text": (
        lambda: ibnn.solver.Newton(linear_rtol="a"),
        ValueError,
        "linear_rtol must be positive, got 'a'",
    ),
    "a negative ridge": (lambda: ibnn.solver.Anderson(ridge=-1), ValueError, "ridge .*got -1"),
    "a tau without end": (lambda: ibnn.solver.Gradient(tau=torch.inf), ValueError, "tau .*got inf"),
    "a solver without a name": (
        lambda: ibnn.implicit_bias(
            torch.ones(3), 0.01, solver=type("Mine", (ibnn.solver.Solver,), {})()
        ),
        TypeError,
        "solver .* needs a name",
    ),
    "lam learnt by a word": (
        lambda: ibnn.Linear(2, 4, learn_lam="no"),
        TypeError,
        "learn_lam must be True or False, got 'no'",
    ),
    "lam of a layer as a flag": (lambda: ibnn.Linear(2, 4, lam=True), TypeError, "lam must be"),
    "a layer called with numbers": (
        lambda: ibnn.ImplicitBias(-0.1)([1.0, 2.0]),
        TypeError,
        "y must be a tensor, got list",
    ),
    "the largest move of no units": (
        lambda: ibnn.theory.largest_move(-0.1, 0),
        ValueError,
        "units must be a number of at least 1",
    ),
    "a model in place of its folder": (
        lambda: ibnn.load(torch.nn.Linear(2, 2), "folder"),
        TypeError,
        "the folder first",
    ),
    "a tau below zero": (lambda: ibnn.solver.Gradient(tau=-1.0), ValueError, "tau .*-1.0"),
    "a slope tensor of an energy": (
        lambda: ibnn.energy(torch.ones(3), torch.ones(3), 0.1, torch.tensor(-10.0)),
        ValueError,
        "slope must be positive",
    ),
    "a slope tensor of a residual": (
        lambda: ibnn.residual(torch.ones(3), torch.ones(3), 0.1, torch.tensor(0.0)),
        ValueError,
        "slope must be positive",
    ),
    "a sigma that cannot be hashed": (
        lambda: ibnn.implicit_bias(torch.ones(3), 0.1, sigma=Unhashable()),
        TypeError,
        r"dataclass\(frozen=True\)",
    ),
    "half a memory": (lambda: ibnn.solver.Anderson(2.5), ValueError, "whole number .*2.5"),
    "anderson without memory": (lambda: ibnn.solver.Anderson(0), ValueError, "memory .*0"),
    "broyden without memory": (lambda: ibnn.solver.Broyden(0), ValueError, "memory .*0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused_in_words(case):
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        call()


def test_a_layer_warns_once_however_often_it_fails():
    torch.manual_seed(0)  # one layer in fourteen is solved in one step
    layer = ibnn.Linear(4, 6, lam=-2.0, max_steps=1)
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    with pytest.warns(ConvergenceWarning, match="of 2 rows did not converge"):
        layer(x)
    layer(x)  # warnings are errors here
    with pytest.warns(ConvergenceWarning):  # another layer has its own say
        ibnn.Linear(4, 6, lam=-2.0, max_steps=1)(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ibnn.Linear(4, 6, lam=-2.0, max_steps=1, on_failure="ignore")(x)
    assert not caught
    with pytest.raises(ConvergenceError):
        ibnn.Linear(4, 6, lam=-2.0, max_steps=1, on_failure="raise")(x)


@pytest.mark.parametrize("how", [{"solver": "picard"}, {"solver": "lite"}, {"start": 0.0}], ids=str)
def test_an_engine_that_cannot_serve_is_an_error_where_only_sums_are_needed(how, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    y = torch.randn(3, 8)
    if "start" in how:
        how = {"start": torch.zeros_like(y)}
    with pytest.raises(ibnn.engine.EngineError, match="'triton' cannot serve here"):
        ibnn.implicit_bias(y, -0.01, engine="triton", **how)


@pytest.mark.parametrize("adjoint", ["implicit", "unrolled", "jfb"])
def test_a_row_that_is_not_finite_is_nan_as_a_whole(adjoint):
    y = torch.tensor([[0.1, torch.nan, 0.3], [0.1, 0.2, 0.3]])
    z = ibnn.implicit_bias(y, -0.1, adjoint=adjoint, on_failure="ignore")
    assert z.isnan().tolist() == [[True] * 3, [False] * 3]
