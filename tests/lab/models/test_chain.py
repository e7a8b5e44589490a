"""A network as a chain of layers: the same function, layer by layer, or a reason why not."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import ibnn
from ibnn.lab.models import UCN, Perceptron
from ibnn.lab.models.chain import NotAChainError, chain


class Own(nn.Module):
    """A network as a user would write it."""

    def __init__(self):
        super().__init__()
        self.first = ibnn.Linear(12, 5, lam=-0.2)
        self.body = nn.Sequential(nn.Linear(5, 4), nn.Sequential(nn.Tanh(), nn.BatchNorm1d(4)))

    def forward(self, x):
        x = x.view(x.shape[0], -1)
        return self.body(torch.sigmoid(self.first(x)))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return x + self.inner(x)


class Scaled(Residual):
    def forward(self, x):
        return 2 * self.inner(x)


class Undecided(Residual):
    def forward(self, x):
        return self.inner(x) if x.sum() > 0 else x


NETWORKS = {
    "UCN": (lambda: UCN((1, 6, 6), 4, 2, 3, "implicit", lam=-0.1), (1, 6, 6)),
    "Perceptron": (lambda: Perceptron(2, 3, 1, "implicit", lam=0.05), (2,)),
    "own": (Own, (3, 4)),
    "one layer": (lambda: nn.Linear(3, 2), (3,)),
    "one implicit layer": (lambda: ibnn.Linear(3, 2, lam=-0.5), (3,)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_layers_one_after_the_other_are_the_network(name):
    make, shape = NETWORKS[name]
    network = make().eval()
    x = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    z = x
    for _, layer in chain(network):
        z = layer(z)
    torch.testing.assert_close(z, network(x), rtol=0, atol=0)


def test_layers_keep_their_names():
    names = [name for name, _ in chain(NETWORKS["UCN"][0]())]
    block = ["pad", "conv", "relu", "norm"]
    assert [name.split(".")[-1] for name in names] == [*block, *block, "flatten", "head"]
    assert names[1] == "blocks.0.conv"


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (Residual(), "it branches: add is given x and inner"),
        (Scaled(), "no layer stands for the function mul"),
        (Undecided(), "cannot be traced"),
        (nn.Sequential(nn.Linear(3, 3), Residual()), "it branches"),
    ],
)
def test_what_is_not_a_chain_says_why(network, reason):
    with pytest.raises(NotAChainError, match=reason):
        chain(network)


def test_padding_with_anything_but_zeros_is_not_a_layer():
    class Reflected(Residual):
        def forward(self, x):
            return self.inner(F.pad(x, (1, 1), mode="reflect"))

    with pytest.raises(NotAChainError, match="mode 'reflect'"):
        chain(Reflected())
