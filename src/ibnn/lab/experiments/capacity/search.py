"""What a search over restarts found, as it is kept beside the run and read back."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import nn

from ibnn.lab.data import Dataset
from ibnn.lab.experiments.capacity.restarts import Restarts
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.stats.region import curved_fraction, logits_on_grid, solidity
from ibnn.lab.training import RunConfig, build_network

KEPT = 5  # of the best networks, with their weights and shapes
SIDE = 121  # points per side of the grid on which a region is measured


def searched(config: RunConfig, points: Dataset, found: Restarts) -> dict[str, Any]:
    """For JSON: accuracies of all restarts; weights and the shape of the region of the best."""
    kept = []
    for number in found.ranked()[:KEPT]:
        network = _network(config, points.image_shape, points.classes, found.weights[number])
        values = logits_on_grid(network, SIDE)
        kept.append(
            {
                "train": found.train[number],
                "validation": found.validation[number],
                "solidity": solidity(values > 0),
                "curved": curved_fraction(values),
                "weights": {name: value.tolist() for name, value in found.weights[number].items()},
            }
        )
    return {
        "train": found.train,
        "validation": found.validation,
        "kept": kept,
        "image_shape": list(points.image_shape),
        "classes": points.classes,
    }


@dataclass(frozen=True)
class Search:
    """The restarts of one setting. Accuracies are between 0 and 1."""

    run: Run
    train: list[float]
    validation: list[float]
    kept: list[dict[str, Any]]  # best first

    @classmethod
    def of(cls, run: Run) -> Search:
        measured = run.measured
        return cls(run, measured["train"], measured["validation"], measured["kept"])

    @property
    def best(self) -> float:
        """Training accuracy of the best restart."""
        return max(self.train)

    @property
    def median(self) -> float:
        """Of the training accuracies."""
        return median(self.train)

    def near(self, points: float) -> int:
        """How many restarts are within so many percentage points of the best."""
        return sum(value >= self.best - points / 100 - 1e-12 for value in self.train)

    def curved(self) -> list[float]:
        """Fraction of the boundary that bends, of the best networks."""
        return [entry["curved"] for entry in self.kept if entry["curved"] is not None]

    def solidity(self) -> float | None:
        """Area over that of the convex hull, of the best network's inner region."""
        return self.kept[0]["solidity"]

    def network(self) -> nn.Module:
        weights = {k: torch.tensor(v) for k, v in self.kept[0]["weights"].items()}
        measured = self.run.measured
        return _network(self.run.config, measured["image_shape"], measured["classes"], weights)

    def rows(self) -> list[dict[str, Any]]:
        """One line of the CSV per restart."""
        config = self.run.config
        implicit = config.neuron == "implicit"
        return [
            {
                "neuron": config.neuron,
                "lam": config.lam if implicit else "",
                "slope": config.slope if implicit else "",
                "hidden": config.hidden,
                "restart": number,
                "train_accuracy": train,
                "accuracy": validation,
                "sgd_train_accuracy": self.run.result.train_accuracy,
                "run": self.run.result.identity,
            }
            for number, (train, validation) in enumerate(
                zip(self.train, self.validation, strict=True)
            )
        ]


def _network(config: RunConfig, shape: Any, classes: int, weights: dict[str, Any]) -> nn.Module:
    network = build_network(config.replace(dtype="float32"), shape, classes)
    network.load_state_dict({**network.state_dict(), **weights})
    return network.eval()
