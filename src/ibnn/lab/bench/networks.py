"""Whole networks: a training step of each, standard and converted."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ibnn
from ibnn.lab.models import UCN, Neuron, ResNet20

LAM = -0.1


@dataclass(frozen=True)
class Network:
    """How to build it from a kind of neuron, its input, and what a step of the implicit one may
    cost."""

    name: str
    build: Callable[[str], nn.Module]
    input: tuple[int, ...]
    required: float
    aim: float


def _timm(name: str, input: tuple[int, ...], required: float, aim: float) -> Network:
    def build(kind: str) -> nn.Module:
        import timm  # pyright: ignore[reportMissingImports]

        network = timm.create_model(name, num_classes=10)
        for module in network.modules():
            if hasattr(module, "inplace"):
                module.inplace = False  # pyright: ignore[reportArgumentType]
        return network if kind == "standard" else ibnn.convert(network, lam=LAM)

    size = "x".join(map(str, (input[0], *input[2:])))
    return Network(f"step of timm {name}, {size}", build, input, required, aim)


def _ucn(layers: int, channels: int, image: tuple[int, int, int]) -> Network:
    def build(kind: str) -> nn.Module:
        return UCN(image, 10, layers, channels, kind, lam=LAM, initialisation="torch")

    return Network(f"step of UCN({layers},{channels})", build, (128, *image), 1.6, 1.3)


def _resnet20(kind: str) -> nn.Module:
    return ResNet20((3, 32, 32), 10, width=16, neuron=Neuron(kind, lam=LAM))


NETWORKS = (
    _ucn(1, 3, (1, 28, 28)),
    _ucn(2, 3, (3, 32, 32)),
    _ucn(3, 8, (3, 32, 32)),
    Network("step of ResNet-20, 64x32x32", _resnet20, (64, 3, 32, 32), 2, 1.5),
    _timm("resnet18", (8, 3, 64, 64), 2.5, 1.5),
    _timm("convnext_tiny", (8, 3, 64, 64), 2.5, 1.5),
    _timm("vit_tiny_patch16_224", (4, 3, 224, 224), 1.8, 1.3),
    _timm("mobilenetv3_small_100", (8, 3, 128, 128), 5, 3),
)


def training_steps(network: Network) -> dict[str, Callable[[], object]] | None:
    """A step of the standard and of the implicit network; None where it cannot be built here."""
    steps: dict[str, Callable[[], object]] = {}
    for kind in ("standard", "implicit"):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                made = network.build(kind)
            except ImportError:
                return None
            images, labels = torch.randn(network.input), torch.randint(10, network.input[:1])
        steps[kind] = training_step(made, images, labels)
    return steps


def training_step(
    network: nn.Module, images: Tensor, labels: Tensor, clip: float | None = None
) -> Callable[[], None]:
    """Forward, backward and SGD with momentum, as one call."""
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()

    return step
