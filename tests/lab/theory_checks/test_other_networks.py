"""Checks on networks that are not the paper's: any coupling, any architecture, or a reason."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import ibnn
from ibnn.lab.theory_checks import run_checks
from ibnn.lab.theory_checks.expressivity import section as expressivity
from ibnn.lab.theory_checks.expressivity.approximation import Approximation
from ibnn.lab.theory_checks.expressivity.first_order import coupling_matrix
from tests.lab.theory_checks.small_context import digits_context, whole
from tests.parts import Ring


class Residual(nn.Module):
    """A skip connection, a window, an implicit bias of its own, one lam per channel."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 2, 3, padding=1)
        self.bias = ibnn.ImplicitBias(-0.1, coupling=ibnn.Window((3, 3)))
        self.inner = ibnn.Conv2d(2, 2, 3, padding=1, lam=[-0.2, 0.05])
        self.head = nn.Linear(2 * 64, 10)

    def forward(self, x):
        x = torch.relu(self.bias(self.stem(x)))
        return self.head((x + torch.relu(self.inner(x))).flatten(1))


class Tokens(nn.Module):
    """Eight tokens of eight features, GELU, another sigma."""

    def __init__(self):
        super().__init__()
        self.first = ibnn.Linear(8, 6, lam=-0.1)
        self.second = ibnn.Linear(6, 5, lam=-0.2, sigma="erf", coupling=ibnn.Dense(units=5))
        self.head = nn.Linear(5, 10)

    def forward(self, x):
        x = F.gelu(self.second(F.gelu(self.first(x.squeeze(1)))))
        return self.head(x.mean(1))


def on_a_ring():
    layer = ibnn.Linear(64, 6, lam=-0.1, coupling=Ring())
    return nn.Sequential(nn.Flatten(), layer, nn.ReLU(), nn.Linear(6, 10))


def across_channels():
    return nn.Sequential(
        ibnn.Conv2d(1, 4, 3, lam=-0.1, coupling="channels"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 10),
    )


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """What does not depend on the network is done elsewhere."""
    kinds = ("standard", "implicit", "close-up", "composed")
    ready = [
        Approximation(kind, None, width, 0, 1 / width, 0.1) for kind in kinds for width in (8, 9)
    ]
    monkeypatch.setattr(expressivity, "_approximations", lambda *_: ready)


@pytest.mark.parametrize(
    ("make", "notes"),
    [
        (Residual, "There is no product bound for this network: it branches"),
        (Tokens, "The network calls no ReLU"),
        (on_a_ring, "The product of the layers' norms bounds the spectral norm"),
        (across_channels, "The product of the layers' norms bounds the spectral norm"),
    ],
)
def test_networks_of_every_shape_are_checked(make, notes):
    torch.manual_seed(0)
    names = ["solutions", "jacobians", "expressivity"]
    found = run_checks(digits_context(network=make(), examples=8), names)
    assert not found.failed
    assert not found.skipped
    assert all(whole(section, name) for section, name in zip(found.sections, names, strict=True))
    assert notes in " ".join(note for section in found.sections for note in section.notes)


@pytest.mark.parametrize("coupling", [Ring(), ibnn.Window(3), ibnn.Dense(units=5)], ids=str)
def test_the_weights_of_any_coupling_are_read_off_its_jacobian(coupling):
    read = coupling_matrix(coupling, (5,))
    between = ~torch.eye(5, dtype=torch.bool)
    if isinstance(coupling, ibnn.Window):  # a box of three
        wanted = torch.ones(5, 5).tril(1).triu(-1).double() / 3
    else:
        wanted = coupling.weight(torch.float64, (5,))
    # taps of a window are float32 numbers made float64
    torch.testing.assert_close(read[between], wanted[between], rtol=0, atol=1e-7)


def test_what_the_theory_does_not_cover_says_why():
    class Wave(ibnn.Sigma):
        name, bound, slope_bound, certified = "wave", 1.0, 1.0, False

        def value(self, x):
            return torch.sin(x)

        def derivative(self, x, order):
            return torch.sin(x + order * torch.pi / 2)

        def primitive(self, x):
            return 1 - torch.cos(x)

    layer = ibnn.Linear(64, 5, lam=-0.01, sigma=Wave(), bounded=False)
    network = nn.Sequential(nn.Flatten(), layer, nn.ReLU(), nn.Linear(5, 10))
    found = run_checks(digits_context(network=network, examples=4), ["solutions", "expressivity"])
    assert list(found.skipped) == ["solutions", "expressivity"]
    assert "sigma wave of layer 1 is not certified" in found.skipped["solutions"]


def test_a_network_without_implicit_layers_is_skipped_with_a_reason():
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    found = run_checks(digits_context(network=network, examples=4), ["jacobians"])
    assert "no implicit layer" in found.skipped["jacobians"]
