"""Gradients of every argument and order: by finite differences, by unrolling, by the oracle."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import ibnn
from ibnn.solver import Newton
from tests import bank, library, oracle

SIGMAS = list(oracle.SIGMAS)
# six units whose differences, times slope 3, stay away from the kinks of hardtanh at +-1:
# no |y_k - y_i| is within 0.05 of 1/3 before or after lam has moved them (checked below)
ROW = (-0.52, -0.41, -0.13, 0.02, 0.24, 0.71)
SLOPE = 3.0


def uniform():
    return ibnn.Uniform(-1), []


def dense():
    raw = torch.rand(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) / 5
    coupling = ibnn.Dense(raw + 0.05, learnable=True).double()
    return coupling, [coupling.raw]


def window():
    coupling = ibnn.Window((3, 3), "gaussian", std=0.8, learnable=True).double()
    return coupling, [coupling.std]


def line():
    coupling = ibnn.Window(3, "gaussian", std=0.8, learnable=True).double()
    return coupling, [coupling.std]


COUPLINGS = [uniform, dense, line, window]


def problem(make, lam):
    """A function of every argument that can be differentiated by, and these arguments."""
    coupling, weights = make()
    shape = (2, 2, 3) if len(coupling.dims) == 2 else (2, 6)
    y = torch.tensor([ROW, ROW[::-1]], dtype=torch.float64)
    y[1] *= 0.4
    arguments = [
        y.reshape(shape).requires_grad_(),
        torch.tensor(lam, dtype=torch.float64, requires_grad=True),
        torch.tensor(SLOPE, dtype=torch.float64, requires_grad=True),
    ]
    names = [name for name, _ in coupling.named_parameters()]

    def function(sigma, adjoint="implicit", solver="newton"):
        def of(y, lam, slope, *weights):
            chosen = Replaced(coupling, dict(zip(names, weights, strict=True)))
            return ibnn.implicit_bias(
                y,
                lam,
                slope,
                coupling=chosen,
                sigma=sigma,
                adjoint=adjoint,
                solver=solver,
                atol=1e-14,
                rtol=0.0,
                on_failure="raise",
            )

        return of

    return function, [*arguments, *weights]


class Replaced(ibnn.Coupling):
    """A coupling with its parameters replaced by tensors, so that one can differentiate by them."""

    def __init__(self, coupling, parameters):
        super().__init__()
        self.sums, self.dims, self.check_units = (
            coupling.sums,
            coupling.dims,
            coupling.check_units,
        )
        self._of, self._parameters_given = [coupling], parameters

    def largest_eigenvalue(self):
        return self._of[0].largest_eigenvalue()

    def weight(self, dtype=None, units=None):
        (coupling,) = self._of
        if not self._parameters_given:
            return coupling.weight(dtype)
        return torch.func.functional_call(
            _Weight(coupling), {f"coupling.{k}": v for k, v in self._parameters_given.items()}, ()
        )


class _Weight(torch.nn.Module):
    def __init__(self, coupling):
        super().__init__()
        self.coupling = coupling

    def forward(self):
        return self.coupling.weight(torch.float64)


@pytest.mark.parametrize("lam", [-0.6, 0.12])
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("make", COUPLINGS)
def test_gradients_are_those_of_finite_differences(make, sigma, lam):
    function, arguments = problem(make, lam)
    assert gradcheck(function(sigma), arguments)


@pytest.mark.parametrize(
    ("sigma", "lam"),
    [("tanh", -0.6), ("tanh", 0.12), ("arctan", -0.6), ("erf", 0.12), ("hardtanh", -0.6)],
)
@pytest.mark.parametrize("make", COUPLINGS)
def test_gradients_of_gradients_are_those_of_finite_differences(make, sigma, lam):
    function, arguments = problem(make, lam)
    # of projections on single directions (fast_mode): the full second derivative has D^3 entries
    g = torch.cos(torch.arange(12.0, dtype=torch.float64)).reshape(arguments[0].shape)
    value = function(sigma)
    assert gradgradcheck(lambda *a: (value(*a) * g).sum(), arguments, fast_mode=True)


def test_the_kinks_of_hardtanh_are_not_near_the_row_of_these_tests():
    for make in COUPLINGS:
        for lam in (-0.6, 0.12):
            function, arguments = problem(make, lam)
            z = function("hardtanh")(*arguments).detach().reshape(2, 6)
            gaps = SLOPE * (z[:, :, None] - z[:, None, :]).abs()
            assert (gaps - 1).abs().min() > 1e-4  # finite differences move z by 1e-6
            assert (gaps > 1).any()


@pytest.mark.parametrize("make", COUPLINGS)
def test_third_derivatives_exist(make):
    function, arguments = problem(make, -0.3)
    y = arguments[0]
    direction = torch.sin(torch.arange(12.0, dtype=torch.float64)).reshape(y.shape)

    def curvature(t):
        value = function("tanh")(y + t * direction, *arguments[1:]).square().sum()
        (first,) = torch.autograd.grad(value, t, create_graph=True)
        return torch.autograd.grad(first, t, create_graph=True)[0]

    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (third,) = torch.autograd.grad(curvature(t), t)
    step = 1e-5
    change = [
        curvature(torch.tensor(s * step, dtype=torch.float64, requires_grad=True)).item()
        for s in (1, -1)
    ]
    # central differences: a fifth derivative of at most 1e5 (slope^5, 12 units) times step^2 / 6,
    # and rounding 1e-13 / step
    assert float(third) == pytest.approx((change[0] - change[1]) / (2 * step), abs=1e-5)
    assert abs(float(third)) > 1e-2


@pytest.mark.parametrize("solver", ["gradient", "picard", "newton", "anderson", "broyden"])
@pytest.mark.parametrize("make", COUPLINGS)
def test_unrolled_gradients_converge_to_the_implicit_ones(make, solver):
    function, arguments = problem(make, -0.15)
    g = torch.cos(torch.arange(12.0, dtype=torch.float64)).reshape(arguments[0].shape)
    results = {}
    for adjoint in ("implicit", "unrolled"):
        z = function("tanh", adjoint, solver)(*arguments)
        results[adjoint] = (z, *torch.autograd.grad((z * g).sum(), arguments))
    for implicit, unrolled in zip(results["implicit"], results["unrolled"], strict=True):
        # derivatives of an iteration converge at its own rate: with z at 1e-14 they are far
        # below 1e-6 for linear rates; Newton's inner solves stop at 1e-3 of the last residual
        torch.testing.assert_close(unrolled, implicit, rtol=1e-6, atol=1e-6)


def test_unrolled_gradients_start_at_the_first_step():
    y = torch.tensor([ROW], dtype=torch.float64, requires_grad=True)
    z = ibnn.implicit_bias(
        y, -0.1, SLOPE, solver="picard", adjoint="unrolled", max_steps=1, on_failure="ignore"
    )
    first = y - -0.1 * bias(y)
    # one step of the iteration, and the one that lets the derivative catch up
    expected = y - -0.1 * bias(first)
    torch.testing.assert_close(z, expected, rtol=1e-12, atol=1e-13)
    g = torch.cos(torch.arange(6.0, dtype=torch.float64))
    torch.testing.assert_close(
        torch.autograd.grad((z * g).sum(), y), torch.autograd.grad((expected * g).sum(), y)
    )


def bias(z):
    return torch.tanh(SLOPE * (z[:, None, :] - z[:, :, None])).mean(-1)


@pytest.mark.parametrize("lam", [0.0, -0.15])
def test_a_row_that_needs_no_step_has_a_gradient_when_unrolled(lam):
    results = []
    for adjoint in ("implicit", "unrolled"):
        for solver in ("newton", Newton(use_engine=False)):
            y = torch.full((1, 6), 0.3, dtype=torch.float64, requires_grad=True)
            strength = torch.tensor(lam, dtype=torch.float64, requires_grad=True)
            start = y if lam else torch.tensor([ROW], dtype=torch.float64)
            z = ibnn.implicit_bias(
                y if lam else start, strength, SLOPE, adjoint=adjoint, solver=solver
            )
            g = torch.cos(torch.arange(6.0, dtype=torch.float64))
            results.append(torch.autograd.grad((z * g).sum(), y if lam else strength)[0])
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("make", COUPLINGS)
def test_jfb_takes_the_jacobian_for_the_identity(make):
    function, arguments = problem(make, -0.6)
    g = torch.cos(torch.arange(12.0, dtype=torch.float64)).reshape(arguments[0].shape)
    z = function("tanh", "jfb")(*arguments)
    found = torch.autograd.grad((z * g).sum(), arguments)
    # jfb is the gradient of one Picard step z <- y - lam B(z) with z held fixed
    fixed, (y, lam, slope, *weights) = z.detach(), arguments
    coupling = Replaced(*_with(make, weights))
    step = y - (ibnn.residual(fixed, y, lam, slope, coupling=coupling) - fixed + y)
    expected = torch.autograd.grad((step * g).sum(), arguments)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    exact = torch.autograd.grad((function("tanh")(*arguments) * g).sum(), arguments)
    assert (found[0] - exact[0]).abs().max() > 0.1


def _with(make, weights):
    coupling, parameters = make()
    return coupling, dict(
        zip([name for name, _ in coupling.named_parameters()], weights, strict=True)
    ) if parameters else {}


def test_lite_is_differentiated_directly():
    y = torch.tensor([ROW], dtype=torch.float64, requires_grad=True)
    lam = torch.tensor(-0.3, dtype=torch.float64, requires_grad=True)
    slope = torch.tensor(SLOPE, dtype=torch.float64, requires_grad=True)

    def lite(y, lam, slope):
        return ibnn.implicit_bias(y, lam, slope, solver="lite")

    assert gradcheck(lite, (y, lam, slope))
    explicit = y - lam * torch.tanh(slope * (y[:, None, :] - y[:, :, None])).mean(-1)
    torch.testing.assert_close(lite(y, lam, slope), explicit, rtol=1e-12, atol=1e-13)


def test_lite_with_a_fixed_slope_is_one_node_with_gradients_of_any_order():
    """It is then written as one function of autograd; y and z may be changed in place."""
    y = torch.tensor([ROW, ROW[::-1]], dtype=torch.float64, requires_grad=True)
    lam = torch.tensor(-0.3, dtype=torch.float64, requires_grad=True)

    def lite(y, lam):
        return ibnn.implicit_bias(y, lam, SLOPE, solver="lite")

    assert gradcheck(lite, (y, lam))
    assert gradgradcheck(lite, (y, lam))
    learnt = torch.tensor(SLOPE, dtype=torch.float64, requires_grad=True)
    g = torch.tensor([ROW, ROW], dtype=torch.float64)
    units = y * 1
    z = lite(units, lam)
    units.zero_()
    z.relu_()
    found = torch.autograd.grad(z, (y, lam), g)
    above = (lite(y, lam) > 0).detach()
    assert 0 < above.sum() < above.numel()
    expected = torch.autograd.grad(
        ibnn.implicit_bias(y, lam, learnt, solver="lite"), (y, lam), g * above
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-13)


# float32 against float64 brute force: the promise of the library, relative to the whole gradient
# (a single component can be the small difference of large ones)
FLOAT32, FLOAT32_STIFF, FLOAT64 = 1e-4, 1e-3, 1e-8


def relative(found, expected):
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected)
    return np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-30)


def library_gradients(batch, precision, g):
    dtype = library.DTYPES[precision]
    y = library.tensor(batch, precision).requires_grad_()
    rows = len(y)
    # one lam and slope per row, as if each row were a channel
    lam = torch.full((rows,), batch.lam, dtype=dtype, requires_grad=True)
    slope = torch.full((rows,), batch.slope, dtype=dtype, requires_grad=True)
    z = ibnn.implicit_bias(
        y,
        lam,
        slope,
        coupling=library.coupling(batch.coupling),
        sigma=batch.sigma,
        on_failure="raise",
    )
    loss = (z * torch.from_numpy(g).to(dtype).reshape(y.shape)).sum()
    return [t.double().numpy() for t in torch.autograd.grad(loss, (y, lam, slope))]


def near_a_kink(problem):
    """Whether float32 cannot tell on which side of a kink of hardtanh a pair is."""
    z = problem.expected
    gaps = problem.slope * np.abs(z[:, None] - z[None, :])
    scale = 1e-5 * problem.slope * np.maximum(1, np.abs(problem.y)).max()
    return problem.sigma == "hardtanh" and bool((np.abs(gaps - 1) < scale).any())


def check_gradients(batches, precision):
    rng = np.random.default_rng(0)
    wrong = []
    for batch in batches:
        g = rng.standard_normal(batch.y.shape)
        by_y, by_lam, by_slope = library_gradients(batch, precision, g)
        for k, problem in enumerate(batch.problems):
            if near_a_kink(problem):
                continue
            expected = problem.gradient(g[k])
            stiff = batch.slope * np.std(problem.y) > 100
            allowed = FLOAT64 if precision == "float64" else FLOAT32_STIFF if stiff else FLOAT32
            # dlam = -v . B and dslope = -lam v . DB z / slope are sums that may cancel: relative
            # to their terms, |v| |B| and |lam| |v| |DB z| / slope
            v = np.linalg.norm(expected[0])
            z, weights = problem.expected, batch.coupling.weights
            b = np.linalg.norm(oracle.bias_row(z, batch.slope, weights, batch.sigma))
            step = np.abs(z[None, :] - z[:, None]).max()
            slope_size = abs(batch.lam) * v * min(1 / batch.slope, step) * len(z) ** 0.5
            # and B, a mean of numbers up to 1, is rounded itself, as is DB z, of terms up to `step`
            rounding = 4 * torch.finfo(library.DTYPES[precision]).eps * v * len(z) ** 0.5 / allowed
            slope_size = max(slope_size, abs(batch.lam) * step * rounding)
            errors = {
                "y": relative(by_y[k].reshape(-1), expected[0]),
                "lam": abs(by_lam[k] - expected[1]) / max(abs(expected[1]), v * b, rounding),
                "slope": abs(by_slope[k] - expected[2]) / max(abs(expected[2]), slope_size, 1e-30),
            }
            for name, error in errors.items():
                if not error <= allowed:
                    wrong.append(f"{problem} by {name}: relative error {error:.1e} > {allowed:g}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_gradients_of_every_coupling_are_the_oracles(precision):
    check_gradients(bank.batches(bank.coupled()), precision)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("units", bank.SIZES)
def test_gradients_over_the_grid_are_the_oracles(units, precision):
    problems = [p for p in bank.grid(sizes=bank.SIZES) if len(p.y) == units]
    if units == 200:
        problems = [p for p in problems if p.lam == -2.0 or p.lam > 0]  # the slow run sees all
    check_gradients(bank.batches(problems), precision)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_gradients_over_the_grid_of_every_sigma_are_the_oracles(sigma, precision):
    check_gradients(bank.batches(bank.grid(sigma)), precision)


@pytest.mark.parametrize("plain", bank.couplings()[4:], ids=str)
def test_gradients_by_dense_weights_are_the_oracles(plain):
    rng = np.random.default_rng(2)
    y, g = rng.standard_normal((2, 24)), rng.standard_normal((2, 24))
    coupling = ibnn.Dense(torch.from_numpy(plain.weight), learnable=True)
    z = ibnn.implicit_bias(torch.from_numpy(y), -0.3, coupling=coupling)
    (z * torch.from_numpy(g)).sum().backward()
    free = sum(
        oracle.weight_gradient_row(yk, -0.3, 10.0, gk, plain.weight)
        for yk, gk in zip(y, g, strict=True)
    )
    symmetric = (free + free.T) / 2 * np.sign(plain.weight)  # |w|: no slope at w = 0
    assert relative(coupling.raw.grad, symmetric) < FLOAT64
