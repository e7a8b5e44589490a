"""What is trained in each preset: networks, their sizes, how much data, and the arms."""

from collections.abc import Mapping
from typing import Any

from ibnn.lab.experiments.arms import IMPLICIT, STANDARD
from ibnn.lab.models import network_kind
from ibnn.lab.training import RunConfig

WIDER = "wider standard"
CONTROLS = ("mean-field", "instance-norm")
IMAGES, TEXT = ("resnet20", "vit"), ("gpt",)

# The width at which a step of the standard GPT(2,64) takes as long as one of the implicit one:
# 1.99 against 2.00 times that of width 64 (batch 16, context 64, one thread; the least of 8).
WIDER_FACTOR = 1.75

# What each preset changes in the recipe of a network.
_SMOKE = {"n_train": 96, "n_test": 48, "batch_size": 32, "epochs": 2}
_CPU = {"n_train": 2_000, "n_test": 500}
AMOUNTS: dict[str, dict[str, dict[str, Any]]] = {
    "smoke": {
        "resnet20": {**_SMOKE, "width": 2},
        "vit": {**_SMOKE, "width": 8, "depth": 1, "heads": 2},
        "gpt": {**_SMOKE, "width": 16, "depth": 1, "heads": 2, "context": 32},
    },
    # 10 to 15 minutes of one core for five seeds of all arms of one network
    "cpu": {
        "resnet20": {
            **_CPU,
            "n_train": 1_500,
            "width": 8,
            "batch_size": 32,
            "lr_high": 0.05,
            "epochs": 5,
        },
        "vit": {**_CPU, "depth": 2, "batch_size": 32, "epochs": 5},
        "gpt": {**_CPU, "depth": 2, "batch_size": 16, "epochs": 4},
    },
    "paper": {"resnet20": {}, "vit": {}, "gpt": {}},  # the recipes in full
}


def base(network: str, dataset: str, preset: str, epochs: int | None) -> RunConfig:
    """The standard network of that preset, trained by its recipe."""
    chosen: Mapping[str, Any] = {**network_kind(network).recipe, **AMOUNTS[preset][network]}
    chosen = chosen if epochs is None else {**chosen, "epochs": epochs}
    return RunConfig(dataset=dataset, network=network, **chosen)


def arms(standard: RunConfig) -> dict[str, RunConfig]:
    """The networks that are compared, all with the seed of the standard one."""
    kind = network_kind(standard.network)
    found = {STANDARD: standard}
    found |= {name: standard.replace(neuron=name) for name in (IMPLICIT, *CONTROLS)}
    if kind.text:
        width = round(WIDER_FACTOR * kind.size(standard, "width") / standard.heads)
        found[WIDER] = standard.replace(width=width * standard.heads)
    return found
