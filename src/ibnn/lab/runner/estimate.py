"""How long runs will take, from a few steps of each kind of network on this machine.

`python -m ibnn.lab.runner.estimate` is the measuring process: it has as many threads as a worker
will have, reads configs as JSON lines and answers with the seconds per image of each.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass

import torch

from ibnn.lab import data
from ibnn.lab.models import implicit_layers, network_kind
from ibnn.lab.models.few_channels import use_compiled_convolution
from ibnn.lab.plugins import load_plugins
from ibnn.lab.runner.options import RunnerError, RunnerOptions
from ibnn.lab.runner.timeleft import spread_over
from ibnn.lab.training import RunConfig, choose_device
from ibnn.lab.training.adversarial import adversarial_examples
from ibnn.lab.training.config import NEURON
from ibnn.lab.training.network import build_network
from ibnn.lab.training.objective import loss_of
from ibnn.lab.training.optimizer import make_optimizer

STEPS = 4
COARSE_STEPS, COARSE_BATCH = 1, 32
# A learnt lam is timed at this fraction of the threshold of uniqueness, where it is expensive:
# trainings take it towards its bound.
TIMED_FRACTION = 0.8


@dataclass(frozen=True)
class Pace:
    """Seconds per image."""

    training: float
    validation: float

    def times(self, factor: float) -> Pace:
        return Pace(factor * self.training, factor * self.validation)


@dataclass(frozen=True)
class Amount:
    """What the clock needs to know of a dataset."""

    n_train: int
    n_test: int
    image_shape: tuple[int, ...]
    classes: int


def estimate(
    configs: Sequence[RunConfig], options: RunnerOptions, *, coarse: bool = False
) -> float:
    """Seconds all runs will take, `options.workers` at a time.

    Args:
        coarse: in seconds: of each dataset one network with standard neurons and one with each
            coupling of the implicit ones is timed, for a single step of a small batch; the time of
            others is taken to grow with their layers and channels.
    """
    kind = _coarse_kind if coarse else _kind

    sizes = {name: _size(name, options) for name in {config.dataset for config in configs}}
    both = [*configs, *map(_standard, configs)]
    kinds = {kind(config): config for config in reversed(both)}  # the first of a kind is measured
    paces = dict(zip(kinds, _measure(list(kinds.values()), sizes, options, coarse), strict=True))
    times = []
    for config in configs:
        own, warm_up = (
            paces[kind(c)].times(_width(c) / _width(kinds[kind(c)]))
            for c in (config, _standard(config))
        )
        n_train, n_test = _images(config, sizes[config.dataset])
        validations = math.ceil(config.epochs / config.validate_every)  # the last epoch's is one
        times.append(
            config.epochs * n_train * own.training
            + validations * n_test * own.validation
            + config.warmup_epochs * (n_train * warm_up.training + n_test * warm_up.validation)
        )
    return spread_over(times, options.workers)


def measure(
    config: RunConfig,
    image_shape: Sequence[int],
    classes: int,
    *,
    steps: int = STEPS,
    batch: int | None = None,
    device: str = "cpu",
) -> Pace:
    """A few steps on images of the right shape; their content does not affect the time."""
    place, count = choose_device(device), batch or config.batch_size
    text = network_kind(config.network).text
    shape = (config.context,) if text else tuple(image_shape)
    network = use_compiled_convolution(build_network(config, shape, classes).to(place))
    with torch.no_grad():
        for layer in implicit_layers(network):
            if config.learn_lam:
                layer.lam.fill_(TIMED_FRACTION / config.slope)
    optimizer = make_optimizer(config, network)
    images = torch.rand(
        count, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32
    ).to(place, getattr(torch, config.dtype))
    labels = (torch.arange(count) % classes).to(place)
    if text:
        images = labels = (images * classes).long()

    def train() -> None:
        moved = adversarial_examples(config, network, images, labels, at=(0, 0))
        optimizer.zero_grad()
        loss_of(network(moved), labels).backward()
        optimizer.step()

    training = _seconds(train, steps, place) / count
    network.eval()
    with torch.no_grad():
        validation = _seconds(lambda: network(images), steps, place) / count
    return Pace(training, validation)


def _seconds(action: Callable[[], object], steps: int, device: torch.device) -> float:
    times = []
    for _ in range(1 + steps):  # the first one compiles, allocates and caches
        start = time.perf_counter()
        action()
        if device.type != "cpu":
            torch.accelerator.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])  # whatever else this machine does only adds to a time


def _measure(
    configs: Sequence[RunConfig], sizes: Mapping[str, Amount], options: RunnerOptions, coarse: bool
) -> list[Pace]:
    about = {
        "sizes": {name: asdict(size) for name, size in sizes.items()},
        "steps": COARSE_STEPS if coarse else STEPS,
        "batch": COARSE_BATCH if coarse else None,
        "device": options.device,
    }
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
        raise RunnerError(f"the time could not be measured: {last[0]}")
    return [Pace(**json.loads(line)) for line in done.stdout.splitlines()]


def _kind(config: RunConfig) -> Hashable:
    """Runs of one kind take equally long per image."""
    sizes = tuple(getattr(config, name) for name in network_kind(config.network).fields)
    network = (config.dataset, config.network, sizes, config.dtype)
    neuron = (config.neuron, config.coupling, config.window, config.learn_window)
    solve = (config.sigma, config.solver, config.learn_slope)
    fixed = None if config.learn_lam or config.neuron == "standard" else config.lam
    return network, neuron, solve, config.learn_lam, fixed, config.slope, _attacked(config)


def _coarse_kind(config: RunConfig) -> Hashable:
    """Runs of one kind take equally long per image, layer and channel, more or less."""
    standard = config.neuron == "standard"
    coupling = standard or config.coupling
    return config.dataset, config.network, config.dtype, coupling, _attacked(config)


def _attacked(config: RunConfig) -> int:
    """Steps of the attack on each batch that is trained on."""
    return config.adversarial_steps if config.adversarial_eps else 0


def _width(config: RunConfig) -> float:
    """What the time of a network grows with."""
    return network_kind(config.network).growth(config)


def _standard(config: RunConfig) -> RunConfig:
    """The same run in its warm-up; what concerns other neurons only is as by default."""
    usual = RunConfig(dataset=config.dataset)
    return config.replace(**{name: getattr(usual, name) for name in NEURON}, neuron="standard")


def _size(name: str, options: RunnerOptions) -> Amount:
    loaded = data.load(name, options.data_root)
    return Amount(len(loaded.x_train), len(loaded.x_test), loaded.image_shape, loaded.classes)


def _images(config: RunConfig, size: Amount) -> tuple[float, float]:
    text = network_kind(config.network).text
    pieces = size.image_shape[0] / config.context if text else 1.0
    n_train = min(config.n_train or math.inf, pieces * size.n_train)
    n_test = min(config.n_test or math.inf, pieces * size.n_test)
    held = n_train * config.hold_out
    return (n_train - held) * config.share, held or n_test


def _main() -> None:
    load_plugins()
    about, *configs = (json.loads(line) for line in sys.stdin)
    settings = {name: about[name] for name in ("steps", "batch", "device")}
    for values in configs:
        config = RunConfig.from_dict(values)
        size = about["sizes"][config.dataset]
        pace = measure(config, size["image_shape"], size["classes"], **settings)
        sys.stdout.write(json.dumps(asdict(pace)) + "\n")


if __name__ == "__main__":
    _main()
