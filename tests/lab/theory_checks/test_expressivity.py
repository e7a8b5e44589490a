"""The expansion in lam, its emulation by standard neurons, universal approximation, regions."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import ibnn
from ibnn.lab.theory_checks.expressivity import section
from ibnn.lab.theory_checks.expressivity.approximation import (
    close_up,
    compose,
    example,
    fit,
    output,
    random_units,
)
from ibnn.lab.theory_checks.expressivity.first_order import (
    StandardNeurons,
    coupling_matrix,
    emulate,
    expansion,
    exponent,
    remainders,
)
from ibnn.lab.theory_checks.expressivity.regions import Plane, bend, connected, look
from ibnn.lab.theory_checks.layers import capture, double
from ibnn.lab.theory_checks.one_hidden import HiddenLayer
from tests import oracle
from tests.lab.theory_checks.small_context import digits_context, whole

UNITS = 5
SIGMAS = sorted(oracle.SIGMAS)
y_rows = arrays.arrays(np.float64, (UNITS,), elements=st.floats(-2, 2, width=32))
# what float64 promises of a solve, twice
EXACT = 2e-10


def left_inverse(z, lam, sigma="tanh"):
    """L(z) = z + lam B(z): the y that z is a solution for."""
    return ibnn.residual(z, torch.zeros_like(z), lam, sigma=sigma)


def inverse_softplus(v):
    return v + torch.log(-torch.expm1(-v))


def remainder_bound(z, layer, lam):
    """lam^2 p mu |B(z)| of each row, a bound on |z - expansion| in l_2."""
    bias = ibnn.residual(z, torch.zeros_like(z), 1.0, **layer.arguments) - z
    return lam**2 / layer.threshold * layer.rows(bias).norm(dim=1)


def crowd(standard, lam, idle, far=1e3):
    """The standard units among 2 * idle units that ignore x and sit at +far and -far: half of the
    crowd pulls up and half down, so the D units feel each other with weight 1 / (D + 2 idle)."""
    weight = torch.cat([standard.weight, standard.weight.new_zeros(2 * idle, 2)])
    ends = standard.bias.new_tensor([far, -far]).repeat_interleave(idle)
    return HiddenLayer(weight, torch.cat([standard.bias, ends]), lam, phi=standard.phi)


def layer_of(sigma="tanh", lam=-0.3, seed=0, inputs=4, units=6):
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        ibnn.Linear(inputs, units, lam=lam, sigma=sigma, learn_lam=False), torch.nn.ReLU()
    ).double()
    x = torch.randn(20, inputs, dtype=torch.float64)
    return capture(network, ibnn.standard(network), x)[0]


@pytest.mark.parametrize("sigma", SIGMAS)
@given(y=y_rows, lam=st.floats(-1, 0.09))
@settings(max_examples=20)
def test_the_expansion_is_y_minus_lam_b_pair_by_pair(sigma, y, lam):
    found = expansion(torch.from_numpy(y), lam, 10.0, sigma=sigma)
    np.testing.assert_allclose(found, y - lam * oracle.bias_row(y, 10.0, sigma=sigma), atol=1e-12)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_remainder_falls_as_the_square_of_lam(sigma):
    layer = layer_of(sigma)
    for sign in (1, -1):
        lams = [sign * share * layer.threshold for share in (0.003, 0.006, 0.012)]
        assert exponent(lams, remainders(layer, lams)) == pytest.approx(2, abs=0.1)


@given(y=y_rows, lam=st.floats(-2, 0.095), sigma=st.sampled_from(SIGMAS))
def test_the_remainder_is_at_most_lam_squared_times_p_times_b(y, lam, sigma):
    rows = torch.from_numpy(y).unsqueeze(0)
    z = ibnn.implicit_bias(rows, lam, sigma=sigma)
    rest = (z - expansion(rows, lam, sigma=sigma)).norm()
    # |B(z)| pair by pair; p mu = 10 for uniform weights; 1e-9 for the rounding of both
    bound = lam**2 * 10 * np.linalg.norm(oracle.bias_row(z[0].numpy(), 10.0, sigma=sigma))
    assert rest <= bound + 1e-9


def test_the_bound_of_the_remainder_is_reached_where_sigma_is_linear():
    wide = layer_of(lam=-1.0)
    for scale, least in ((1.0, 0.01), (1e-4, 0.999)):
        layer = replace(wide, y=scale * wide.y)
        z = layer.solve(-1.0)
        rest = (z - expansion(layer.y, layer.lam, layer.slope)).norm(dim=1)
        share = rest / remainder_bound(z, layer, -1.0)
        assert (share <= 1 + 1e-6).all()
        assert (share >= least).all()


def test_with_relu_the_papers_expansion_is_only_of_first_order_at_the_kink():
    # phi(y) - lam phi'(y) B(y) jumps where y_i = 0; phi(y - lam B(y)) does not
    for lam in (0.01, 0.001):
        y = torch.tensor([0.0, 1.0], dtype=torch.float64)
        y[0] = lam / 4  # below lam B / 2, so that z_0 has the other sign
        bias = ibnn.residual(y, torch.zeros_like(y), 1.0) - y
        z = torch.relu(ibnn.implicit_bias(y, lam))
        paper = torch.relu(y) - lam * (y > 0) * bias
        inside = torch.relu(expansion(y, lam))
        assert float((z - paper).abs().max()) == pytest.approx(lam / 4, rel=0.05)
        assert float((z - inside).abs().max()) < lam**2


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_standard_neurons_compute_the_expansion(sigma, shared):
    layer = layer_of(sigma)
    network = emulate(layer, shared_pairs=shared)
    wanted = expansion(layer.y, layer.lam, layer.slope, sigma=layer.sigma)
    torch.testing.assert_close(network(layer.x), wanted, rtol=0, atol=1e-13)
    units = layer.units
    neurons = sum(m.out_features for m in network.modules() if isinstance(m, torch.nn.Linear))
    assert neurons == (units * (units + 3) // 2 if shared else units * (units + 2))


def test_standard_neurons_emulate_a_dense_coupling_too():
    torch.manual_seed(0)
    raw = torch.rand(4, 4, dtype=torch.float64) / 4
    coupling = ibnn.Dense(raw)
    weight, bias = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    x = torch.randn(7, 3, dtype=torch.float64)
    network = StandardNeurons(weight, bias, coupling_matrix(coupling, (4,)), 0.03)
    wanted = expansion(x @ weight.T + bias, 0.03, coupling=coupling)
    torch.testing.assert_close(network(x), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("coupling", ["space", ibnn.Window((3, 3))], ids=str)
def test_a_convolution_is_emulated_row_by_row(coupling):
    torch.manual_seed(0)
    made = ibnn.Conv2d(1, 2, 3, padding="same", lam=-0.2, coupling=coupling)
    network = torch.nn.Sequential(made).double()
    x = torch.randn(3, 1, 4, 4, dtype=torch.float64)
    layer = capture(network, ibnn.standard(network), x)[0]
    assert layer.units == 16
    wanted = expansion(layer.y, layer.lam, layer.slope, coupling=layer.coupling)[:, 0].flatten(1)
    made = emulate(layer)(layer.x.flatten(1))
    torch.testing.assert_close(made, wanted, rtol=0, atol=1e-13)


def test_layers_hold_what_the_network_computes():
    network = double(torch.nn.Sequential(ibnn.Linear(3, 5, lam=0.05), torch.nn.ReLU()))
    x = torch.randn(4, 3, dtype=torch.float64)
    (layer,) = capture(network, ibnn.standard(network), x)
    for z in (layer.z, layer.solve(float(layer.lam))):
        torch.testing.assert_close(torch.relu(z), network(x), rtol=0, atol=EXACT)


@given(y=y_rows, lam=st.floats(-2, 0.5), sigma=st.sampled_from(SIGMAS))
def test_l_undoes_f_even_above_the_threshold(y, lam, sigma):
    rows = torch.from_numpy(y).unsqueeze(0)
    solved = ibnn.solve(rows, lam, sigma=sigma, on_failure="ignore")
    if solved.converged.all():
        # an error e of z is one of at most (1 + 2 |lam| p) e in L(z)
        tolerance = EXACT * (1 + 20 * abs(lam))
        back = left_inverse(solved.value, lam, sigma=sigma)
        torch.testing.assert_close(back, rows, rtol=0, atol=tolerance)


def test_above_the_threshold_l_is_not_one_to_one():
    # two different z, one y: F has to choose, L need not
    y = torch.zeros(1, 2, dtype=torch.float64)
    apart = torch.tensor([[-0.1, 0.1]], dtype=torch.float64)
    z = ibnn.solve(y, 0.3, start=apart, on_failure="ignore").value
    assert (z[0, 1] - z[0, 0]).abs() > 0.1
    torch.testing.assert_close(left_inverse(z, 0.3), y, rtol=0, atol=1e-9)
    torch.testing.assert_close(left_inverse(y, 0.3), y, rtol=0, atol=0)


@pytest.mark.parametrize("lam", [-1.0, -0.2, 0.05])
def test_as_many_implicit_units_do_what_standard_ones_do(lam):
    generator = torch.Generator().manual_seed(0)
    units = random_units(2, 12, generator)
    x = 2 * torch.rand(50, 2, generator=generator, dtype=torch.float64) - 1
    far = (close_up(units, lam, scale=1e-2)(x) / 1e-2 - units(x)).abs().max()
    near = (close_up(units, lam, scale=1e-3)(x) / 1e-3 - units(x)).abs().max()
    assert near < 1e-3
    # tanh is linear up to third order: a tenth of the scale leaves a hundredth of the error
    assert near / far == pytest.approx(0.01, rel=0.3)


@pytest.mark.parametrize("lam", [-1.0, 0.05])
def test_in_a_crowd_implicit_units_are_standard_ones(lam):
    generator = torch.Generator().manual_seed(0)
    units = random_units(2, 4, generator, phi=torch.nn.functional.softplus)
    x = 2 * torch.rand(9, 2, generator=generator, dtype=torch.float64) - 1
    for idle in (8, 80):
        among = crowd(units, lam, idle)(x)[:, :4]
        assert (among - units(x)).abs().max() <= abs(lam) * 4 / (4 + 2 * idle) + EXACT


def test_the_papers_construction_undoes_the_implicit_layer():
    generator = torch.Generator().manual_seed(0)
    softplus = torch.nn.functional.softplus
    units = random_units(2, 6, generator, phi=softplus)
    x = 2 * torch.rand(40, 2, generator=generator, dtype=torch.float64) - 1
    implicit = HiddenLayer(units.weight, units.bias, -0.5, phi=softplus)
    undone = left_inverse(inverse_softplus(implicit(x)), -0.5)
    torch.testing.assert_close(undone, x @ units.weight.T + units.bias, rtol=0, atol=1e-8)
    # and standard neurons on its image approximate: better with more of them
    errors = []
    for width in (8, 128):
        both = compose(units, -0.5, x, width, generator)
        goal = output(units(x), fit(units(x), example(x)))
        errors.append(float((output(both(x), fit(both(x), goal)) - goal).abs().max()))
    assert errors[1] < 1e-3 < errors[0]


def test_a_single_hidden_layer_has_the_regions_of_its_lines():
    # lines x = -0.5, x = 0.5, y = 0: six cells
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
        network[0].bias.copy_(torch.tensor([0.5, -0.5, 0.01]))
    plane = Plane(torch.zeros(2), torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    seen = look(network, plane, 0, side=21, coarse=7)
    assert seen.regions == 6
    assert (seen.bending == 0).all()


def test_connected_cells_of_one_pattern_are_counted_apart():
    pattern = np.array([[0, 1, 0], [0, 1, 0]], dtype=np.uint8)[..., None]
    assert connected(pattern).max() + 1 == 3
    assert connected(np.zeros((3, 4, 1), dtype=np.uint8)).max() == 0


def test_a_network_without_relu_has_no_regions():
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    plane = Plane(torch.zeros(2), torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    seen = look(network, plane, 0, side=5, coarse=5)
    assert seen.regions is None
    assert (seen.bending > 0).all()


def test_bending_is_the_hessian_over_the_gradient():
    points = torch.tensor([[0.3, -0.2], [1.0, 0.5]], dtype=torch.float64)
    found = bend(lambda p: p[:, 0] ** 2 + 3 * p[:, 1], points)
    wanted = [2 / math.hypot(2 * a, 3) for a in (0.3, 1.0)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_the_implicit_layer_bends_where_the_standard_one_does_not():
    torch.manual_seed(0)
    network = torch.nn.Sequential(ibnn.Linear(2, 3, lam=-0.5), torch.nn.Linear(3, 1)).double()
    points = torch.rand(6, 2, dtype=torch.float64)
    assert (bend(lambda p: network(p)[:, 0], points) > 1e-3).all()
    twin = ibnn.standard(network)
    assert (bend(lambda p: twin(p)[:, 0], points) == 0).all()


def test_a_plane_goes_through_its_three_examples():
    three = torch.randn(3, 1, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    plane = Plane.through(three)
    at = plane.coordinates(three)
    torch.testing.assert_close(plane.at(at), three, rtol=0, atol=1e-12)
    torch.testing.assert_close(at.norm(dim=1), torch.ones(3).double(), rtol=0, atol=1e-12)
    assert plane.u.norm() == pytest.approx(float(plane.v.norm()))
    with pytest.raises(ValueError, match="on a line"):
        Plane.through(torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))


def test_the_section_tells_all_of_it():
    steps = []
    found = section.section(digits_context(), lambda *step: steps.append(step))
    assert whole(found, "expressivity")
    assert [picture.name for picture in found.pictures] == [
        "expressivity-expansion",
        "expressivity-regions",
    ]
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1]
