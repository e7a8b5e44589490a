"""Small networks trained on digits in a second, as plain models and as parts of broken ones."""

import copy
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ibnn
from ibnn.lab import data

EPS = 0.07  # breaks about half of the images
# units a few apart are not beyond each other's reach: sigma is not flat there
BIAS = {"lam": -1.0, "slope": 1.0, "learn_lam": False}


@lru_cache
def images(count: int = 100) -> tuple[Tensor, Tensor]:
    split = data.load("digits")
    return split.x_test[:count].float() / 255, split.y_test[:count]


@lru_cache
def _trained(neuron: str) -> nn.Sequential:
    split = data.load("digits")
    x, y = split.x_train.float() / 255, split.y_train
    with torch.random.fork_rng():
        torch.manual_seed(0)
        hidden = ibnn.Linear(64, 16, **BIAS) if neuron == "implicit" else nn.Linear(64, 16)
        model = nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), nn.Linear(16, 10))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
        for _ in range(60):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    model.eval()
    return model


def trained(neuron: str = "standard") -> nn.Sequential:
    """Flatten, a hidden layer of 16 units, ReLU, head; a copy of its own for each caller."""
    return copy.deepcopy(_trained(neuron))
