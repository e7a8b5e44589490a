"""What derivatives do: norms against explicit Jacobians, inequalities where they hold and where
they do not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import ibnn
from ibnn import theory
from ibnn.lab.models import UCN, Perceptron
from ibnn.lab.models.chain import NotAChainError
from ibnn.lab.theory_checks import DoesNotApply
from ibnn.lab.theory_checks.jacobians.norms import (
    factors,
    forward_product,
    frobenius_norms,
    product,
    spectral_norms,
)
from ibnn.lab.theory_checks.jacobians.ratios import (
    ALONE,
    OWN_MASKS,
    SAME_MASK,
    directions,
    finite_ratios,
    firmness,
    layer_ratios,
    network_ratios,
)
from ibnn.lab.theory_checks.layers import capture
from ibnn.lab.theory_checks.numerics.operator import BiasOperator
from tests import oracle

ROUNDING = 1e-9


def ucn(lam=-0.2, layers=2):
    generator = torch.Generator().manual_seed(0)
    network = UCN((1, 8, 8), 10, layers, 3, initialisation="torch", generator=generator)
    return ibnn.convert(network.double(), lam).eval().requires_grad_(False)


def images(count=5, seed=1):
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed)).double()


def explicit(network, x):
    """Every Jacobian as a matrix, (images, outputs, inputs)."""
    each = [torch.func.jacrev(lambda one: network(one[None])[0])(one) for one in x]
    return torch.stack([j.flatten(1) for j in each])


@pytest.mark.parametrize("make", [ucn, lambda: ibnn.standard(ucn())], ids=["implicit", "standard"])
def test_norms_and_products_are_those_of_the_matrix(make, generator):
    network, x = make(), images()
    matrices = explicit(network, x)
    dx = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    expected = (matrices @ dx.flatten(1).unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(forward_product(network, x, dx), expected, atol=1e-8, rtol=1e-7)
    exact = frobenius_norms(network, x, generator=generator)  # 10 outputs, 16 probes
    torch.testing.assert_close(exact, matrices.norm(dim=(1, 2)), atol=1e-8, rtol=1e-7)
    spectral = spectral_norms(network, x, generator=generator, steps=500, rtol=1e-9)
    largest = torch.linalg.matrix_norm(matrices, 2)
    torch.testing.assert_close(spectral.norms, largest, atol=0, rtol=1e-4)
    assert (spectral.norms <= largest * (1 + 1e-9)).all()


def test_hutchinson_is_right_on_average(generator):
    network, x = ucn(layers=1), images(1)
    flat = nn.Sequential(network.blocks, nn.Flatten())  # 192 outputs: more than the probes
    exact = float(explicit(flat, x).norm())
    found = [float(frobenius_norms(flat, x, probes=8, generator=generator)) ** 2 for _ in range(60)]
    # the mean of 60 draws, within 4 of its own standard errors
    assert abs(np.mean(found) - exact**2) < 4 * np.std(found) / np.sqrt(len(found))


@given(
    seed=st.integers(0, 10_000),
    share=st.floats(-20, 0.95),
    std=st.sampled_from([0.01, 0.1, 1.0]),
    sigma=st.sampled_from(list(oracle.SIGMAS)),
)
@settings(max_examples=40)
def test_every_eigenvalue_is_within_the_closed_range(seed, share, std, sigma):
    z = torch.from_numpy(std * np.random.default_rng(seed).standard_normal((1, 12)))
    lam = share * 0.1
    low, high = theory.jacobian_range(lam, 10.0, sigma=sigma)
    spectrum = BiasOperator(z, lam, sigma=sigma).spectrum()
    assert float(spectrum.min()) >= low - ROUNDING
    assert float(spectrum.max()) <= high * (1 + ROUNDING)


@given(seed=st.integers(0, 10_000), lam=st.floats(-2, 0), sigma=st.sampled_from(["tanh", "erf"]))
@settings(max_examples=40)
def test_for_negative_lam_f_is_a_proximal_operator(seed, lam, sigma):
    """Firmly non-expansive, far apart as well as near: |Fy - Fy'|^2 <= <Fy - Fy', y - y'>."""
    random = np.random.default_rng(seed)
    y = torch.from_numpy(random.standard_normal((2, 9)) * random.choice([0.05, 0.5, 5.0]))
    z = ibnn.implicit_bias(y, lam, sigma=sigma)
    dz, dy = z[0] - z[1], y[0] - y[1]
    assert float(dz.square().sum()) <= float((dz * dy).sum()) + ROUNDING
    assert float(dz.norm()) <= float(dy.norm()) + ROUNDING


@given(seed=st.integers(0, 10_000), share=st.floats(0.1, 0.95))
@settings(max_examples=20)
def test_positive_lam_stretches_every_direction_but_the_mean(seed, share):
    random = np.random.default_rng(seed)
    z, v = (torch.from_numpy(random.standard_normal((1, 9)) * s) for s in (0.05, 1.0))
    v = v - v.mean()
    assert float(BiasOperator(z, share * 0.1).inverse(v).norm()) > float(v.norm())


class Two(nn.Module):
    """Two units that see one input each."""

    def __init__(self, lam):
        super().__init__()
        self.layer = ibnn.Linear(2, 2, lam=lam, learn_lam=False, dtype=torch.float64)
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(2))
            self.layer.bias.zero_()

    def forward(self, x):
        return torch.relu(self.layer(x))


def test_relu_breaks_the_paper_inequality_with_equal_masks():
    network = Two(-0.1).eval()
    x = torch.tensor([[0.1, -0.1]], dtype=torch.float64)  # the second unit is off in both
    (state,) = capture(network, ibnn.standard(network), x)
    assert ((state.z > 0) == (state.y > 0)).all()
    # a change of the second unit only: the twin hides it, the implicit neuron passes some on
    moves = {"second": torch.tensor([[1e-3, 1.0]], dtype=torch.float64)}
    found = {ratio.what: float(ratio.values) for ratio in layer_ratios(state, moves)}
    assert found[ALONE] <= 1
    assert found[SAME_MASK] > 100
    assert found[OWN_MASKS] == pytest.approx(found[SAME_MASK])
    whole = network_ratios(network, ibnn.standard(network), x, moves)[0]
    assert float(whole.values) == pytest.approx(found[OWN_MASKS], rel=1e-6)
    assert whole.fraction() == 0


def test_relu_breaks_the_global_inequality_too():
    network = Two(-0.1).eval()
    x = torch.tensor([[0.1, -0.1], [0.1001, -0.2]], dtype=torch.float64)
    (state,) = capture(network, ibnn.standard(network), x)
    alone, own = finite_ratios(state)
    assert (alone.values <= 1).all()
    assert (own.values > 10).all()


def test_without_relu_the_inequality_holds_in_a_real_network(generator):
    network = ucn()
    for state in capture(network, ibnn.standard(network), images(16)):
        for ratio in layer_ratios(state, directions(state.x, generator)) + finite_ratios(state):
            if ratio.what == ALONE:
                assert ratio.fraction() == 1
        assert (firmness(state) >= 1 - ROUNDING).all()


def test_with_positive_lam_it_fails_even_without_relu(generator):
    network = ucn(0.08)
    for state in capture(network, ibnn.standard(network), images(8)):
        alone = layer_ratios(state, directions(state.x, generator))[0]
        assert alone.fraction() == 0


def test_ratios_are_those_of_finite_differences(generator):
    network = ucn()
    twin, x = ibnn.standard(network), images(3)
    moves = {"random": torch.randn(x.shape, generator=generator, dtype=torch.float64)}
    step = 1e-6 * moves["random"]
    expected = (network(x + step) - network(x - step)).norm(dim=1)
    expected /= (twin(x + step) - twin(x - step)).norm(dim=1)
    found = network_ratios(network, twin, x, moves)[0].values
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("lam", [-0.3, 0.07])
@pytest.mark.parametrize("make", [ucn, lambda lam: ibnn.convert(_perceptron(), lam).eval()])
def test_the_product_bound_holds(make, lam, generator):
    network = make(lam)
    inputs = images(6) if isinstance(network, UCN) else torch.randn(6, 2, dtype=torch.float64)
    chain = factors(network, inputs, generator)
    largest = torch.linalg.matrix_norm(explicit(network, inputs), 2).max()
    assert float(largest) <= product(chain) * (1 + 1e-3)  # power iteration is from below
    laterals = [factor.lateral for factor in chain if factor.lateral != 1]
    assert all(lateral == pytest.approx(1 / 0.3) for lateral in laterals)
    assert bool(laterals) == (lam > 0)


def _perceptron():
    generator = torch.Generator().manual_seed(0)
    return Perceptron(2, 6, 1, generator=generator).double().eval().requires_grad_(False)


def test_the_norm_of_a_link_is_that_of_its_matrix(generator):
    network = (
        nn.Sequential(nn.Linear(7, 4), nn.ReLU(), nn.Linear(4, 3)).double().requires_grad_(False)
    )
    chain = factors(network, torch.zeros(1, 7, dtype=torch.float64), generator)
    for factor, layer in zip(chain, (network[0], network[2]), strict=True):
        expected = float(torch.linalg.matrix_norm(layer.weight, 2))
        assert factor.norm == pytest.approx(expected, rel=1e-3)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = ibnn.Linear(2, 2, lam=-0.1)

    def forward(self, x):
        return x + self.inner(x)


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (nn.Sequential(Residual(), nn.Linear(2, 2)), "it branches"),
        (nn.Sequential(nn.Linear(2, 2), nn.GELU()), "no norm is known for 1, a GELU"),
        (nn.Sequential(nn.MaxPool1d(2, stride=1)), "no norm is known for 0, a MaxPool1d"),
    ],
)
def test_a_network_without_a_product_bound_says_why(network, reason, generator):
    with pytest.raises(NotAChainError, match=reason):
        factors(network.eval(), torch.zeros(1, 2), generator)


def test_the_product_bound_knows_pooling_and_an_implicit_bias_of_its_own(generator):
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        ibnn.ImplicitBias(0.05, coupling=ibnn.Uniform((-2, -1))),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 4),
    )
    network = network.double().eval().requires_grad_(False)
    links = factors(network, images(1), generator)
    assert [link.name for link in links] == ["0", "1", "4", "6"]
    assert links[1].norm == pytest.approx(1)
    assert links[1].lateral == pytest.approx(2)
    assert links[2].norm == pytest.approx(0.5, rel=1e-3)  # the mean of four: 4 * (1/4)^2 = 1/4
    largest = torch.linalg.matrix_norm(explicit(network, images(6)), 2).max()
    assert float(largest) <= product(links) * (1 + 1e-3)


def test_a_network_without_implicit_layers_has_nothing_to_show():
    network = _perceptron()
    with pytest.raises(DoesNotApply, match="no implicit layer"):
        capture(network, network, torch.zeros(1, 2, dtype=torch.float64))
