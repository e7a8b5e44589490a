"""One hidden layer, as the paper's proofs have it: as weights, and as a classifier to train."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.data import Dataset, as_float
from ibnn.lab.training.seeds import generator

RATE = 0.01  # of Adam


@dataclass(frozen=True)
class HiddenLayer:
    """phi(F(weight x + bias)), or without F where lam is None: the standard neuron."""

    weight: Tensor
    bias: Tensor
    lam: float | None = None
    slope: float = 10.0
    phi: Callable[[Tensor], Tensor] = torch.relu
    sigma: str | ibnn.Sigma = "tanh"

    def __call__(self, x: Tensor) -> Tensor:
        y = x @ self.weight.T + self.bias
        if self.lam is None:
            return self.phi(y)
        return self.phi(ibnn.implicit_bias(y, self.lam, self.slope, sigma=self.sigma))


class OneHidden(nn.Module):
    """s(x) = c . ReLU(z(x)) + c_0, with z standard (lam None) or implicit; no batch norm.

    >>> OneHidden(4, 3)(torch.zeros(5, 2, 2)).shape
    torch.Size([5])
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        lam: float | None = None,
        slope: float = 10.0,
        sigma: str | ibnn.Sigma = "tanh",
        seed: int = 0,
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.hidden = nn.Linear(inputs, units)
            self.head = nn.Linear(units, 1)
            if lam is not None:  # the weights of the standard network of this seed
                standard = self.hidden
                self.hidden = ibnn.Linear(
                    inputs, units, lam=lam, slope=slope, sigma=sigma, learn_lam=False
                )
                self.hidden.load_state_dict(standard.state_dict(), strict=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.hidden(x.flatten(1)))).squeeze(1)


def squared_error(score: Tensor, label: Tensor) -> Tensor:
    """The paper's loss of each example: (P(s) - y)^2 with P the logistic function."""
    return (torch.sigmoid(score) - label).square()


def train(network: nn.Module, x: Tensor, y: Tensor, steps: int) -> float:
    """Adam on all examples at once, with the paper's loss; returns the training accuracy."""
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    network.train()
    for _ in range(steps):
        optimizer.zero_grad()
        squared_error(network(x), y).mean().backward()
        optimizer.step()
    network.eval()
    with torch.no_grad():
        return float(((network(x) > 0) == (y > 0.5)).float().mean())


def binary_task(
    dataset: Dataset, count: int, seed: int, split: str = "train"
) -> tuple[Tensor, Tensor]:
    """Up to `count` random examples, and whether their label is in the upper half of classes."""
    x, y = (getattr(dataset, f"{letter}_{split}") for letter in "xy")
    chosen = torch.randperm(len(x), generator=generator(seed, f"two classes {split}"))[:count]
    images = as_float(x[chosen])
    return images, (y[chosen] >= (dataset.classes + 1) // 2).to(images.dtype)
