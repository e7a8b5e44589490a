"""How long runs will take, from a few steps of each kind of network on this machine.

`python -m ibnn.lab.runner.estimate` is the measuring process: it has as many threads as a worker
will have, reads configs as JSON lines and answers with the seconds per image of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ibnn.lab import data
from ibnn.lab.models import implicit_layers
from ibnn.lab.plugins import load_plugins
from ibnn.lab.runner.engine import EngineError, EngineOptions
from ibnn.lab.runner.timeleft import spread_over
from ibnn.lab.training import RunConfig
from ibnn.lab.training.network import build_network
from ibnn.lab.training.objective import loss_of
from ibnn.lab.training.optimizer import make_optimizer

STEPS = 4
# A learnt lam is measured where it is expensive: trainings take it towards its bound.
SHARE_OF_THRESHOLD = 0.8


@dataclass(frozen=True)
class Pace:
    """Seconds per image."""

    training: float
    validation: float


def estimate(configs: Sequence[RunConfig], options: EngineOptions) -> float:
    """Seconds all runs will take together, `options.workers` at a time."""
    kinds = {_kind(config): config for config in configs}
    kinds |= {_kind(_standard(c)): _standard(c) for c in configs}
    paces = dict(zip(kinds, _measure(list(kinds.values()), options), strict=True))
    sizes = {c.dataset: _sizes(c.dataset, options) for c in configs}
    times = []
    for config in configs:
        own, warm_up = paces[_kind(config)], paces[_kind(_standard(config))]
        n_train, n_test = _images(config, sizes[config.dataset])
        epochs = config.epochs, config.warmup_epochs
        times.append(
            sum(
                number * (n_train * pace.training + n_test * pace.validation)
                for number, pace in zip(epochs, (own, warm_up), strict=True)
            )
        )
    return spread_over(times, options.workers)


def measure(config: RunConfig, dataset: data.Dataset) -> Pace:
    """A few steps on images of the right shape; what they show is all the same to the clock."""
    network = build_network(config, dataset.image_shape, dataset.classes)
    with torch.no_grad():
        for layer in implicit_layers(network):
            if config.learn_lam:
                layer.lam.fill_(SHARE_OF_THRESHOLD / config.slope)
    optimizer = make_optimizer(config, network)
    images, labels = next(iter(data.batches(dataset.x_train, dataset.y_train, config.batch_size)))
    images = images.to(getattr(torch, config.dtype))

    def train() -> None:
        optimizer.zero_grad()
        loss_of(network(images), labels).backward()
        optimizer.step()

    training = _seconds(train) / len(images)
    network.eval()
    with torch.no_grad():
        validation = _seconds(lambda: network(images)) / len(images)
    return Pace(training, validation)


def _seconds(action: Callable[[], object]) -> float:
    action()  # the first one compiles, allocates and caches
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)  # whatever else this machine does only adds to a time


def _measure(configs: Sequence[RunConfig], options: EngineOptions) -> list[Pace]:
    about = {"data_root": str(options.data_root) if options.data_root else None}
    lines = [json.dumps(about), *(json.dumps(asdict(config)) for config in configs)]
    done = subprocess.run(
        [sys.executable, "-m", "ibnn.lab.runner.estimate"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env={**os.environ, **options.environment()},
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise EngineError(f"the time could not be measured: {last[0]}")
    return [Pace(**json.loads(line)) for line in done.stdout.splitlines()]


def _kind(config: RunConfig) -> Hashable:
    """Runs of one kind take equally long per image."""
    neuron = (config.neuron, config.learn_lam, config.coupling, config.window, config.solver)
    network = (config.network, config.layers, config.channels, config.hidden, config.dtype)
    fixed = None if config.learn_lam or config.neuron == "standard" else config.lam
    return config.dataset, network, neuron, fixed, config.slope


def _standard(config: RunConfig) -> RunConfig:
    return config.replace(neuron="standard", lam=0.0, learn_lam=True, slope=10.0)


def _sizes(name: str, options: EngineOptions) -> tuple[int, int]:
    loaded = data.load(name, options.data_root)
    return len(loaded.x_train), len(loaded.x_test)


def _images(config: RunConfig, sizes: tuple[int, int]) -> tuple[float, float]:
    n_train = min(config.n_train or sizes[0], sizes[0])
    n_test = min(config.n_test or sizes[1], sizes[1])
    held = n_train * config.hold_out
    return (n_train - held) * config.share, held or n_test


def _main() -> None:
    load_plugins()
    about, *configs = (json.loads(line) for line in sys.stdin)
    loaded: dict[str, Any] = {}
    for values in configs:
        config = RunConfig.from_dict(values)
        if config.dataset not in loaded:
            loaded[config.dataset] = data.load(config.dataset, about["data_root"])
        pace = measure(config, loaded[config.dataset])
        sys.stdout.write(json.dumps(asdict(pace)) + "\n")


if __name__ == "__main__":
    _main()
