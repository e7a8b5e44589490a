"""Models whose robustness is known exactly, worked out in float64 by sorting, not by search."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ibnn.lab.attacks import Attack, HopSkipJump, Norm, Pixle, named


def quick(name: str, eps: float, norm: Norm) -> Attack:
    """A setting of each attack that takes a fraction of a second on the models of this file."""
    if name == "hopskipjump":
        return HopSkipJump(steps=2, samples=5, norm=norm)
    if name == "pixle":
        return Pixle(restarts=2, iterations=2, patch=2)
    return named(name, eps, norm, quick=True)


def linear(shape: tuple[int, ...], classes: int, seed: int = 0) -> nn.Module:
    """A linear classifier that is undecided at the middle of the box: every class is met there."""
    units = int(np.prod(shape))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = nn.Linear(units, classes)
    with torch.no_grad():
        layer.bias.copy_(-layer.weight.sum(1) / 2)
    return nn.Sequential(nn.Flatten(), layer)


def curved() -> nn.Module:
    """A network of five classes on which a few steps of an attack do not find everything."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(16, 64),
            nn.Tanh(),
            nn.Linear(64, 64),
            nn.Tanh(),
            nn.Linear(64, 5),
        )


class Labels(nn.Module):
    """The same answers as another model, with nothing to see but the label."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        logits = self.inner(x)
        return nn.functional.one_hot(logits.argmax(1), logits.shape[1]).to(x.dtype)


def images(
    model: nn.Module, count: int, shape: tuple[int, ...], spread: float = 1.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Images around the middle of the box, with the labels the model gives them."""
    drawn = torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed))
    x = 0.5 + spread * (drawn - 0.5)
    with torch.no_grad():
        return x, model(x).argmax(1)


def smallest(model: nn.Module, x: Tensor, y: Tensor, norm: Norm) -> Tensor:
    """The distance of each image to the nearest wrong point of [0, 1]; inf if there is none."""
    layer = model[1]
    weight = layer.weight.detach().double().numpy()
    bias = layer.bias.detach().double().numpy()
    found = []
    for image, label in zip(x.flatten(1).double().numpy(), y.tolist(), strict=True):
        to_others = [
            _to_plane(image, weight[k] - weight[label], bias[k] - bias[label], norm)
            for k in range(len(weight))
            if k != label
        ]
        found.append(min(to_others))
    return torch.tensor(found, dtype=torch.float64)


def _to_plane(
    image: NDArray[np.float64], normal: NDArray[np.float64], offset: float, norm: Norm
) -> float:
    """The smallest move inside the box after which `<normal, image> + offset = 0`.

    Coordinate i moves with speed s_i (1 in l_inf, |normal_i| in l_2) until it meets the box at
    time room_i / s_i; between two such times the value grows linearly.
    """
    gap = -(normal @ image + offset)
    assert gap >= 0, "the model gets this image wrong"
    room = np.where(normal > 0, 1 - image, image)
    speed = np.ones_like(room) if norm == "linf" else np.abs(normal)
    times = room / speed
    now = 0.0
    for i in np.argsort(times):
        free = times > now
        rate = np.abs(normal[free]) @ speed[free]
        if rate > 0 and gap <= rate * (times[i] - now):
            now += gap / rate
            move = np.minimum(now * speed, room)
            return float(move.max() if norm == "linf" else np.linalg.norm(move))
        gap -= rate * (times[i] - now)
        now = times[i]
    return float("inf")
