"""Runs of well under a second, and what must be equal for two of them to be the same."""

from dataclasses import asdict
from typing import Any

import torch

from ibnn.lab.data import Dataset
from ibnn.lab.training import RunConfig, RunFolder

DIGITS = RunConfig(
    dataset="digits",
    n_train=300,
    n_test=100,
    channels=2,
    epochs=3,
    warmup_epochs=2,
    batch_size=64,
    neuron="implicit",
    initialisation="torch",
)

PLANE = RunConfig(
    dataset="arrows",
    network="perceptron",
    n_train=300,
    n_test=100,
    epochs=3,
    warmup_epochs=1,
    batch_size=64,
    initialisation="torch",
)


def images() -> Dataset:
    """Small noisy images of three classes, made without anything that is slow to import."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(400) % 3
    x = torch.randint(0, 200, (400, 1, 8, 8), dtype=torch.uint8, generator=generator)
    x[torch.arange(400), 0, 2 * y] += 55
    return Dataset("images", x[:300], y[:300], x[300:], y[300:], 3, (1, 8, 8))


TIMES = ("seconds", "images_per_second")


def numbers(folder: RunFolder) -> list[dict[str, Any]]:
    """Every line of metrics without its times."""
    lines = [asdict(line) for line in folder.metrics()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def assert_same_run(one: RunFolder, other: RunFolder) -> None:
    """Metrics and weights are equal to the last bit."""
    assert numbers(one) == numbers(other)
    first, second = one.latest(), other.latest()
    assert first is not None
    assert second is not None
    assert first.weights.keys() == second.weights.keys()
    assert first.momentum.keys() == second.momentum.keys()
    for name, value in first.weights.items():
        assert torch.equal(value, second.weights[name]), name
    for name, value in first.momentum.items():
        assert torch.equal(value, second.momentum[name]), name
    ours, theirs = asdict(one.result()), asdict(other.result())
    for result in (ours, theirs):
        del result["seconds"], result["environment"]
    assert ours == theirs
