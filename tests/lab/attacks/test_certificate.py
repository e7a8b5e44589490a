"""The certificate is exact where an exact answer exists and never above what an attack leaves."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import ibnn
from ibnn.lab.attacks.certificate import certify, pair_constants
from ibnn.lab.attacks.lipschitz import UnknownLayerError, convolution_norm
from ibnn.lab.models import UCN, Perceptron


def random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def labels_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits = model(x)
    return (logits[:, 0] > 0).long() if logits.shape[1] == 1 else logits.argmax(1)


def worst_margin(model, x, y, radius, norm, seed) -> torch.Tensor:
    """The smallest margin an ascent of 10 steps from a random start finds in each ball (no box)."""
    exact = copy.deepcopy(model).double().eval()
    x, worst = x.double(), torch.full((len(x),), math.inf, dtype=torch.float64)
    eps = radius.reshape(-1, *[1] * (x.ndim - 1))
    change = torch.randn(x.shape, generator=random(seed), dtype=torch.float64)
    for _ in range(10):
        change = inside(change, eps, norm).requires_grad_()
        margins = margin(exact(x + change), y)
        worst = torch.minimum(worst, margins.detach())
        (gradient,) = torch.autograd.grad(margins.sum(), change)
        step = gradient.sign() if norm == "linf" else gradient / length(gradient)
        change = change.detach() - eps / 4 * step
    return worst


def inside(change: torch.Tensor, eps: torch.Tensor, norm: str) -> torch.Tensor:
    if norm == "linf":
        return change.clamp(-eps, eps)
    return change * (eps / length(change)).clamp(max=1)


def length(change: torch.Tensor) -> torch.Tensor:
    dims = tuple(range(1, change.ndim))
    return torch.linalg.vector_norm(change, dim=dims, keepdim=True).clamp(min=1e-12)


def margin(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if logits.shape[1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], 1)
    true = logits.gather(1, y[:, None])
    return (true - logits.scatter(1, y[:, None], -math.inf)).amin(1)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_linear_classifier_gets_its_exact_distance(norm):
    generator = random(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4)).double()
    x = torch.rand(20, 3, 2, 2, generator=generator, dtype=torch.float64)
    y = labels_of(model, x)
    linear = model[1]
    expected = []
    for image, label in zip(x.flatten(1), y.tolist(), strict=True):
        logits = linear(image).tolist()
        distances = []
        for other in set(range(4)) - {label}:
            difference = (linear.weight[label] - linear.weight[other]).detach()
            dual = difference.abs().sum() if norm == "linf" else difference.norm()
            distances.append((logits[label] - logits[other]) / float(dual))
        expected.append(min(distances))
    certificate = certify(model, x, y, norm)
    # the l_inf distance may not exceed what l_2 proves, and here it does not
    torch.testing.assert_close(certificate.radius, torch.tensor(expected, dtype=torch.float64))
    wrong = certify(model, x, (y + 1) % 4, norm)
    assert wrong.accuracy(0.0) == 0
    assert certificate.accuracy(0.0) == 1


def test_affine_maps_at_the_end_are_multiplied_out():
    generator = random(1)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double().eval()
    model[1].running_var.uniform_(0.5, 2, generator=generator)
    whole = model[2].weight @ torch.diag(1 / (model[1].running_var + 1e-5).sqrt())
    whole = (whole @ model[0].weight).detach()
    constants = pair_constants(model, (6,))
    torch.testing.assert_close(constants["linf"][0, 1], (whole[0] - whole[1]).abs().sum())
    torch.testing.assert_close(constants["l2"][0, 2], (whole[0] - whole[2]).norm())


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 3, 3),
        nn.Conv2d(2, 3, 3, padding=1),
        nn.Conv2d(2, 3, (5, 3), padding="same"),
        nn.Conv2d(2, 3, 3, stride=2, padding=2),
        nn.Conv2d(2, 2, 2, dilation=2),
        nn.Conv2d(2, 4, 3, groups=2),
    ],
)
def test_the_norm_of_a_convolution_is_bounded_from_above_and_not_by_much(layer):
    layer = layer.double()
    x = torch.zeros(1, 2, 7, 6, dtype=torch.float64)
    matrix = torch.autograd.functional.jacobian(lambda x: layer(x).flatten(), x).flatten(1)
    true, bound = float(torch.linalg.matrix_norm(matrix, 2)), convolution_norm(layer, x.shape[2:])
    assert true <= bound
    # without stride only the border tells the torus from the map
    assert layer.stride != (1, 1) or bound < 1.35 * true


def networks(seed: int, lam: float, kind: str) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(seed)
    if kind == "ucn":
        shape = (1, 10, 10)  # a kernel of side 2
        model = UCN(shape, 3, 2, 2, "implicit", lam=lam, initialisation="torch")
    elif kind == "window":
        shape = (1, 5, 5)
        coupling, lam = ibnn.Window(3), lam / 2  # half the threshold of the others
        model = UCN(shape, 3, 1, 2, "implicit", lam=lam, coupling=coupling, initialisation="torch")
    elif kind == "layer":
        shape = (1, 5, 5)
        model = UCN(shape, 3, 1, 2, "implicit", lam=lam, coupling="layer", initialisation="torch")
    elif kind == "standard":
        shape = (1, 10, 10)
        model = UCN(shape, 3, 2, 2, initialisation="torch")
    else:
        shape = (5,)
        model = Perceptron(5, 6, 1, "implicit", lam=lam)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_var.uniform_(0.05, 1.0)
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.weight.data.mul_(3)  # far from linear in sigma
    return model.eval(), shape


CASES = {
    "seed": st.integers(0, 10**6),
    "lam": st.sampled_from([-1.0, -0.2, 0.0, 0.03, 0.07, 0.09]),
    "norm": st.sampled_from(["linf", "l2"]),
    "kind": st.sampled_from(["ucn", "window", "layer", "standard", "perceptron"]),
}


@settings(max_examples=10)
@given(**CASES)
def test_no_attack_breaks_what_is_certified(seed, lam, norm, kind):
    assert_kept(seed, lam, norm, kind)


@pytest.mark.slow
@settings(max_examples=200)
@given(**CASES)
def test_no_attack_breaks_what_is_certified_in_many_networks(seed, lam, norm, kind):
    assert_kept(seed, lam, norm, kind)


def assert_kept(seed: int, lam: float, norm: str, kind: str) -> None:
    model, shape = networks(seed, lam, kind)
    x = torch.rand(5, *shape, generator=random(seed))
    y = labels_of(model, x)
    certificate = certify(model, x, y, norm)
    assert (certificate.radius >= 0).all()
    some = (certificate.radius > 0) & (certificate.radius < math.inf)
    # at 0.9999 of each image's own radius: what is left of the margin is above float64's rounding
    found = worst_margin(model, x[some], y[some], 0.9999 * certificate.radius[some], norm, seed)
    assert (found > 0).all()


@pytest.mark.filterwarnings("ignore::ibnn.ThresholdWarning")
def test_beyond_the_threshold_nothing_is_certified():
    model = Perceptron(5, 6, 3, "implicit", lam=0.2, learn_lam=False).eval()
    x = torch.rand(4, 5)
    assert certify(model, x, labels_of(model, x)).accuracy(0.0) == 0


def test_lam_below_zero_costs_nothing_in_l2():
    standard = Perceptron(5, 6, 3, generator=random(0)).eval()
    implicit = ibnn.convert(standard, lam=-0.5)
    one, other = pair_constants(standard.double(), (5,)), pair_constants(implicit.double(), (5,))
    torch.testing.assert_close(one["l2"], other["l2"])


class Unknown(nn.ReLU):
    def forward(self, input):
        return input**2


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (nn.GELU(), "layer of type GELU"),
        (Unknown(), "layer of type Unknown"),
        (nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), "padding_mode='reflect'"),
        (nn.BatchNorm2d(1, track_running_stats=False), "without running statistics"),
        (ibnn.Conv2d(1, 1, 3, lam=-0.1, solver="lite"), "approximate solver"),
    ],
)
def test_a_layer_without_a_bound_is_named(layer, words):
    model = nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)).eval()
    x = torch.rand(2, 1, 4, 4)
    model(x)
    with pytest.raises(UnknownLayerError, match=words):
        certify(model, x, torch.zeros(2).long())


def test_a_wrong_norm_is_named():
    with pytest.raises(ValueError, match="norm is 'l1', expected 'linf' or 'l2'"):
        certify(nn.Linear(2, 2), torch.rand(1, 2), torch.zeros(1).long(), "l1")
