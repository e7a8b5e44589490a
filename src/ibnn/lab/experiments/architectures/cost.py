"""What a training step costs, in steps of a standard network timed in the same process."""

import time
from collections.abc import Callable

import torch
from torch import nn

from ibnn.lab import data
from ibnn.lab.data import Dataset
from ibnn.lab.training import RunConfig, build_network, loss_of
from ibnn.lab.training.optimizer import make_optimizer

REPETITIONS = 6


def step_cost(network: nn.Module, config: RunConfig, split: Dataset) -> tuple[float, float]:
    """Seconds of processor time of a step of `network`, and how many steps of the yardstick it is:
    the standard network of the usual width.

    The steps of both take turns on the first batch, the least of several is taken: whatever else
    the machine does only adds to a time. `network` is trained on by it: give a copy of its own.
    """
    usual = config.replace(neuron="standard", width=None)
    yardstick = build_network(usual, split.image_shape, split.classes)
    steps = _step(network, config, split), _step(yardstick, usual, split)
    least = [float("inf")] * 2
    for _ in range(1 + REPETITIONS):
        for side, step in enumerate(steps):
            begin = time.process_time()
            step()
            least[side] = min(least[side], time.process_time() - begin)
    return least[0], least[0] / least[1]


def _step(network: nn.Module, config: RunConfig, split: Dataset) -> Callable[[], None]:
    network.train()
    optimizer = make_optimizer(config, network)
    x, y = next(data.batches(split.x_train, split.y_train, config.batch_size))

    def step() -> None:
        optimizer.zero_grad()
        loss_of(network(x), y).backward()
        optimizer.step()

    return step


def threads() -> int:
    """How many threads the steps had."""
    return torch.get_num_threads()
