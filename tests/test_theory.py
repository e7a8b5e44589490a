"""The closed formulas, against eigenvalues, solutions and Lipschitz constants that are measured."""

import itertools
import math

import numpy as np
import pytest
import torch

import ibnn
from ibnn import theory
from ibnn.coupling.sums import UNIFORM
from tests import bank, library, oracle
from tests.parts import Ring

SLOPES = (1.0, 10.0, 100.0)


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("plain", bank.couplings(), ids=str)
def test_the_threshold_is_never_above_the_true_one(plain, slope):
    threshold = ibnn.uniqueness_threshold(slope, library.coupling(plain))
    exact = plain.threshold(slope)
    # float32 taps; a window's formula is for maps without borders, the rest are exact
    assert threshold <= exact * (1 + 1e-6)
    if plain.kind != "window":
        assert threshold == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("profile", ["box", "gaussian"])
def test_the_threshold_of_a_window_is_sharp_on_large_maps(profile):
    std = 0.75 if profile == "gaussian" else None
    window = ibnn.Window(5, profile, std)
    exact = oracle.threshold(10.0, oracle.window_weights((400,), 5, profile, std))
    # borders take a frequency spacing of pi / 400 away from the minimum: relative 1e-3 at most
    assert ibnn.uniqueness_threshold(10.0, window) == pytest.approx(exact, rel=1e-3)


def test_the_paper_threshold_is_half_of_the_uniform_one():
    assert ibnn.uniqueness_threshold(10.0) == 0.1 == 2 * theory.paper_threshold(10.0)


@pytest.mark.parametrize("plain", bank.couplings()[:5], ids=str)
def test_no_normalised_coupling_falls_below_the_paper_threshold(plain):
    assert ibnn.uniqueness_threshold(10.0, library.coupling(plain)) >= theory.paper_threshold(10.0)


def test_weights_that_connect_nobody_have_no_threshold():
    for coupling in (ibnn.Dense(torch.eye(3)), ibnn.Window(1)):
        assert ibnn.uniqueness_threshold(10.0, coupling) == math.inf
    layer = ibnn.Linear(2, 3, lam=7.0, coupling=ibnn.Dense(torch.eye(3)))
    assert layer.effective_lam == 7


def test_a_threshold_per_slope():
    slopes = torch.tensor([1.0, 10.0])
    assert torch.equal(ibnn.uniqueness_threshold(slopes), 1 / slopes)


@pytest.mark.parametrize("slope", [0.0, -1.0, math.inf, math.nan])
def test_a_slope_that_is_not_positive_is_refused(slope):
    with pytest.raises(ValueError, match=f"slope must be positive and finite, got {slope}"):
        ibnn.uniqueness_threshold(slope)


@pytest.mark.parametrize("slope", [[-1.0], [1.0, 0.0], [1.0, math.nan], [math.inf]], ids=str)
def test_a_tensor_of_slopes_must_be_positive_too(slope):
    for function in (ibnn.uniqueness_threshold, theory.paper_threshold):
        with pytest.raises(ValueError, match=r"slope must be positive and finite, got tensor"):
            function(torch.tensor(slope))


def test_a_slope_without_numbers_to_look_at_is_taken_as_it_is():
    assert ibnn.uniqueness_threshold(torch.ones(3, device="meta")).shape == (3,)
    slopes = torch.tensor([1.0, 10.0])
    assert torch.equal(torch.vmap(ibnn.uniqueness_threshold)(slopes), 1 / slopes)


@pytest.mark.parametrize("slope", ["steep", True, [10.0], None])
def test_what_is_no_slope_is_refused(slope):
    with pytest.raises(TypeError, match="slope must be a number or a tensor, got "):
        ibnn.uniqueness_threshold(slope)


@pytest.mark.parametrize(
    "asked",
    [
        lambda coupling: ibnn.uniqueness_threshold(10.0, coupling),
        lambda coupling: theory.lipschitz_constant(0.05, 10.0, coupling),
        lambda coupling: theory.paper_threshold(10.0, coupling),
        lambda coupling: theory.largest_move(-0.1, 8, coupling),
    ],
)
def test_the_name_of_a_coupling_is_no_coupling_here(asked):
    with pytest.raises(TypeError, match="coupling must be an ibnn coupling, such as"):
        asked("space")


def test_a_steeper_sigma_lowers_the_threshold():
    class Steep(ibnn.Sigma):
        name = "steep"
        slope_bound = 2.0

        def value(self, x):
            return torch.tanh(x) + x.clamp(-1, 1)

        def primitive(self, x):
            inside = x.clamp(-1, 1)
            return torch.logaddexp(x, -x) + inside * (x - inside / 2)

    assert ibnn.uniqueness_threshold(10.0, sigma=Steep()) == pytest.approx(0.05)


def test_just_above_the_threshold_there_are_several_solutions():
    # two equal units: their gap d solves d = lam tanh(p d), which has d != 0 for lam > 1/p
    y, lam = torch.zeros(1, 2, dtype=torch.float64), 0.11
    apart = ibnn.solve(y, lam, start=torch.tensor([[-0.05, 0.05]], dtype=torch.float64))
    together = ibnn.solve(y, lam)
    assert together.converged.all()
    assert apart.converged.all()
    assert (apart.value - together.value).abs().max() > 1e-2


@pytest.mark.parametrize("plain", bank.couplings(), ids=str)
@pytest.mark.parametrize("share", [-3.0, 0.5, 0.95])
def test_the_lipschitz_constant_bounds_the_jacobian_and_is_met(plain, share):
    coupling = library.coupling(plain)
    lam = share * float(ibnn.uniqueness_threshold(10.0, coupling))
    bound = theory.lipschitz_constant(lam, 10.0, coupling)
    rng = np.random.default_rng(0)
    worst = 0.0
    for std in (1e-6, 0.03, 0.3):
        z = std * rng.standard_normal(24)
        jacobian = oracle.jacobian_row(z, lam, 10.0, plain.weights)
        worst = max(worst, 1 / np.linalg.eigvalsh(jacobian)[0])
    assert worst <= bound * (1 + 1e-9)
    if plain.kind != "window":  # near z = 0 the bound is reached
        assert worst >= bound * (1 - 1e-6)


def test_from_the_threshold_on_nothing_bounds_the_jacobian():
    assert theory.lipschitz_constant(0.1) == theory.lipschitz_constant(0.3) == math.inf


def test_the_transferred_margin_bounds_how_far_units_move():
    rng = np.random.default_rng(1)
    y = torch.from_numpy(rng.standard_normal((8, 30)))
    for lam in (-0.5, -0.1, 0.08):
        moved = (ibnn.implicit_bias(y, lam) - y).norm(dim=-1).max()
        # the head has norm 1 and compares two classes: the margin loses at most twice the move
        assert 2 * moved <= 1.0 - theory.transferred_margin(1.0, lam, 30)


@pytest.mark.parametrize("sigma", list(oracle.SIGMAS))
@pytest.mark.parametrize("slope", SLOPES)
def test_the_energy_constants_bound_the_primitive_and_are_met(sigma, slope):
    growth, curvature = theory.energy_constants(slope, sigma)
    _, derivative, primitive = oracle.SIGMAS[sigma]
    x = np.geomspace(1e-2, 1e2, 400) / slope
    ratio = primitive(slope * x) / slope / x**2
    # at 0.01 the primitives are of order 1e-5 with rounding 1e-16, and within x^2 = 1e-4 of x^2/2
    assert ratio.max() <= growth * (1 + 1e-9)
    assert ratio.max() >= growth * (1 - 1e-3)
    steepest = slope * derivative(slope * np.linspace(-1, 1, 2001) / slope)
    assert steepest.max() == pytest.approx(curvature)
    assert theory.paper_threshold(slope, sigma=sigma) == pytest.approx(1 / (4 * growth))


@pytest.mark.parametrize("plain", bank.couplings(), ids=str)
def test_the_sharper_threshold_is_never_below_the_paper_one(plain):
    coupling = library.coupling(plain)
    paper = theory.paper_threshold(10.0, coupling)
    assert paper <= float(ibnn.uniqueness_threshold(10.0, coupling)) * (1 + 1e-6)
    rows = 1.0 if plain.weights is None else plain.weights.sum(axis=1).max()
    assert paper == pytest.approx(0.05 / rows, rel=1e-6)


def test_the_paper_threshold_is_met_by_two_units_that_hear_each_other_only():
    pair = ibnn.Dense(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert ibnn.uniqueness_threshold(10.0, pair) == pytest.approx(
        theory.paper_threshold(10.0, pair)
    )


@pytest.mark.parametrize("units", [1, 2, 3, 4, 5])
def test_no_wins_and_losses_move_units_farther_than_a_strict_order(units):
    pairs = list(itertools.combinations(range(units), 2))
    farthest = 0.0
    for signs in itertools.product((-1, 1), repeat=len(pairs)):
        b = np.zeros(units)
        for (i, k), sign in zip(pairs, signs, strict=True):
            b[i] += sign / units
            b[k] -= sign / units
        farthest = max(farthest, np.linalg.norm(b))
    assert theory.largest_move(-1.0, units) == pytest.approx(farthest)


@pytest.mark.parametrize("plain", bank.couplings(), ids=str)
@pytest.mark.parametrize("sigma", list(oracle.SIGMAS))
def test_no_row_moves_farther_than_the_largest_move(plain, sigma):
    coupling, rng = library.coupling(plain), np.random.default_rng(2)
    y = torch.from_numpy(rng.standard_normal((6, 24)) * np.geomspace(0.01, 100, 6)[:, None])
    y = y.reshape(6, *(plain.shape or (24,)))
    moved = ibnn.implicit_bias(y, -0.3, coupling=coupling, sigma=sigma) - y
    bound = theory.largest_move(-0.3, 24, coupling)
    assert float(moved.flatten(1).norm(dim=1).max()) <= bound


class Loud(ibnn.Coupling):
    """Weights of 1 between all units: not normalized, which an eigenvalue of its own allows."""

    def __init__(self, dims=(-1,)):
        super().__init__()
        self.dims = dims

    def weight(self, dtype=None, units=None):
        return torch.ones(math.prod(units), math.prod(units), dtype=dtype)

    def largest_eigenvalue(self):
        return 8.0


class LoudSums(ibnn.coupling.PairSums):
    name = "loud"

    def pair_sum(self, z, a, weight, order, sigma, units):
        return z.shape[-1] * UNIFORM.pair_sum(z, a, None, order, sigma, units)

    def self_weight(self, weight, units):
        return 1.0

    def eigenvalue_bound(self, weight):
        return 8.0


class LoudBySums(Loud):
    """The same weights, not written out."""

    sums = LoudSums()

    def weight(self, dtype=None, units=None):
        return None


@pytest.mark.parametrize("kind", [Loud, LoudBySums])
@pytest.mark.parametrize(("dims", "units"), [((-1,), 8), ((-2, -1), (2, 4))])
def test_weights_of_ones_own_that_are_not_normalized_move_units_farther(kind, dims, units):
    y = 1e3 * torch.arange(8, dtype=torch.float64).reshape(units)
    moved = ibnn.implicit_bias(y, -0.5, coupling=kind(dims)) - y
    bound = theory.largest_move(-0.5, units, kind(dims))
    assert bound == pytest.approx(0.5 * 8 * math.sqrt(8))
    # all far apart, |B_i| is 1, 3, 5 or 7 of the 8 allowed
    assert float(moved.norm()) == pytest.approx(0.5 * math.sqrt(168))
    assert theory.sharper_margin(1.0, -0.5, units, kind(dims)) == pytest.approx(1 - 2 * bound)
    assert theory.paper_threshold(10.0, kind(dims), units=units) == pytest.approx(0.05 / 8)


def test_row_sums_that_cannot_be_known_are_not_guessed():
    with pytest.raises(ValueError, match=r"units=None does not say the row sums of Loud"):
        theory.paper_threshold(10.0, Loud())
    with pytest.raises(ValueError, match=r"units=8 .* one number for each of its dims \(-2, -1\)"):
        theory.largest_move(-0.5, 8, Loud((-2, -1)))
    assert theory.paper_threshold(10.0, Ring()) == 0.05  # a solve holds it to row sums of 1


def test_units_far_apart_move_as_far_as_they_can():
    y = 1e3 * torch.arange(50, dtype=torch.float64)
    moved = (ibnn.implicit_bias(y, -0.3) - y).norm()
    assert float(moved) == pytest.approx(theory.largest_move(-0.3, 50), rel=1e-6)
    assert theory.sharper_margin(1.0, -0.3, 50) > theory.transferred_margin(1.0, -0.3, 50)


def test_the_range_of_the_jacobian_ends_where_uniqueness_does():
    assert theory.jacobian_range(0.1) == (-math.inf, math.inf)
    assert theory.jacobian_range(0.0) == (1.0, 1.0)
