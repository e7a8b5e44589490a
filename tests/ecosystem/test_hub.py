"""Networks of one's own with Hugging Face's `PyTorchModelHubMixin`, as docs/use.md shows them."""

from typing import Any

import pytest
import torch
from torch import nn

import ibnn

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def mixin() -> Any:
    return pytest.importorskip("huggingface_hub").PyTorchModelHubMixin


def body(channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, channels, 3), nn.ReLU(), nn.Flatten(), nn.Linear(channels * 16, 2)
    )


def test_a_network_that_is_converted_where_it_is_made_comes_back(mixin, tmp_path):
    class Network(nn.Module, mixin):
        def __init__(self, channels: int = 4, lam: float = -0.1):
            super().__init__()
            self.body = ibnn.convert(body(channels), lam=lam, learn_lam=True)

        def forward(self, x):
            return self.body(x)

    torch.manual_seed(0)
    network, x = Network(channels=3, lam=-0.2), torch.randn(2, 1, 6, 6)
    with torch.no_grad():
        network.body[0].lam.fill_(-0.15)  # as training would
    network.save_pretrained(tmp_path)
    again = Network.from_pretrained(tmp_path)
    assert torch.equal(again(x), network(x))
    assert again.body[0].lam.item() == pytest.approx(-0.15)


def test_one_that_is_converted_afterwards_needs_ibnn_save(mixin, tmp_path):
    class Network(nn.Module, mixin):
        def __init__(self, channels: int = 4):
            super().__init__()
            self.body = body(channels)

        def forward(self, x):
            return self.body(x)

    torch.manual_seed(0)
    converted, x = ibnn.convert(Network(channels=3), lam=-0.2), torch.randn(2, 1, 6, 6)
    converted.save_pretrained(tmp_path / "hub")
    assert type(Network.from_pretrained(tmp_path / "hub").body[0]) is nn.Conv2d
    with pytest.raises(ValueError, match=r"carries no plan of a conversion.*ibnn\.save"):
        ibnn.load(tmp_path / "hub", Network(channels=3))
    ibnn.save(converted, tmp_path / "own")
    assert torch.equal(ibnn.load(tmp_path / "own", Network(channels=3))(x), converted(x))
