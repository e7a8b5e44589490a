"""One training step of the paper's networks: standard neurons against implicit ones."""

from typing import Any

import torch

from ibnn.lab.bench import engines
from ibnn.lab.bench.networks import training_step
from ibnn.lab.bench.problems import choose
from ibnn.lab.bench.settings import BenchSettings
from ibnn.lab.bench.timing import interleave, ratio
from ibnn.lab.experiments.transfer.conversions import preactivation_std
from ibnn.lab.models import UCN

BATCH = 128
NETWORKS = (((1, 28, 28), 1, 3), ((3, 32, 32), 2, 3), ((3, 32, 32), 3, 8))
# Where training takes a learnt lam, and where the paper's robustness lives.
LAMS = (0.05, -0.2)


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    return [
        row
        for network in NETWORKS
        for lam in choose(LAMS, settings.quick, 1)
        for row in time_steps(settings, *network, lam)
    ]


def time_steps(
    settings: BenchSettings, image: tuple[int, int, int], layers: int, channels: int, lam: float
) -> list[dict[str, Any]]:
    """One row per engine. Weights are torch's, so that maps spread more than the paper's do."""
    standard = _network(image, layers, channels, "standard")
    generator = torch.Generator().manual_seed(0)
    images = torch.rand((BATCH, *image), generator=generator)
    labels = torch.randint(10, (BATCH,), generator=generator)
    spread = max(preactivation_std(standard, images))
    # gradients clipped, as in the experiments
    candidates = {"standard": training_step(standard, images, labels, clip=1.0)}
    for engine in settings.engines:
        network = _network(image, layers, channels, "implicit", lam=lam, on_failure="ignore")
        step = training_step(network, images, labels, clip=1.0)
        candidates[engine] = engines.by(engine, step)
    times = interleave(candidates, settings.rounds, settings.seconds)
    return [
        {
            "network": f"UCN({layers},{channels})",
            "image": "x".join(map(str, image)),
            "lam": lam,
            "engine": engine,
            "ratio": ratio(times, engine, "standard"),
            "ms": times[engine].milliseconds,
            "standard_ms": times["standard"].milliseconds,
            "spread": times[engine].spread,
            "std": spread,
        }
        for engine in settings.engines
    ]


def _network(image: tuple[int, int, int], layers: int, channels: int, neuron: str, **options: Any):
    generator = torch.Generator().manual_seed(0)
    sizes = (image, 10, layers, channels)
    return UCN(*sizes, neuron, initialisation="torch", generator=generator, **options)
