"""One run among those trained in step: where it stands, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ibnn.lab import data
from ibnn.lab.training import CheckpointError, Metrics, RunConfig, RunFolder, build_network
from ibnn.lab.training.checkpoint import Checkpoint
from ibnn.lab.training.result import summarise
from ibnn.lab.training.split import fingerprint

# What may differ between the networks of one ensemble.
_OWN = {"seed": 0, "neuron": "standard", "lam": 0.0, "slope": 10.0, "learn_lam": False}


@dataclass
class Member:
    """A run in an ensemble; `first` is the epoch it goes on with, warm-up included."""

    config: RunConfig
    folder: RunFolder
    first: int = 0
    latest: Checkpoint | None = None
    metrics: list[Metrics] = field(default_factory=list)

    def shape(self) -> str:
        """Equal for runs that can be trained in step."""
        return self.config.replace(**_OWN).to_json()

    def neuron(self, index: int) -> str:
        """The neuron of epoch `index`."""
        return "standard" if index < self.config.warmup_epochs else self.config.neuron

    def begin(self, locks: ExitStack, examples: str) -> None:
        """Take the folder and find out how far the run is."""
        locks.enter_context(self.folder.lock())
        self.latest = self.folder.begin(self.config)
        if self.latest is None:
            return
        if self.latest.data != examples:
            raise CheckpointError(
                f"run {self.folder.identity} was started on other data than {self.config.dataset} "
                f"is now; delete {self.folder.path} to train it again"
            )
        self.first, self.metrics = self.latest.epochs_done, list(self.latest.metrics)

    def state(self, split: data.Dataset) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
        """Weights and momentum to go on with; the warm-up's momentum ends with it."""
        if self.latest is None:
            network = build_network(self.config, split.image_shape, split.classes, "standard")
            return network.state_dict(), {}
        fresh = self.first == self.config.warmup_epochs
        return self.latest.weights, {} if fresh else self.latest.momentum

    def add(self, line: Metrics) -> None:
        """Keep what a validation measured."""
        self.metrics.append(line)
        with self.folder.metrics_file.open("a") as file:
            file.write(line.to_line() + "\n")

    def save(
        self,
        split: data.Dataset,
        index: int,
        weights: Mapping[str, Tensor],
        momentum: Mapping[str, Tensor],
    ) -> None:
        """Write the checkpoint after epoch `index`."""
        neuron = self.neuron(index)
        network = build_network(self.config, split.image_shape, split.classes, neuron)
        self.folder.save(
            Checkpoint(
                identity=self.folder.identity,
                image_shape=split.image_shape,
                classes=split.classes,
                data=fingerprint(split),
                epochs_done=index + 1,
                neuron=neuron,
                weights={**network.state_dict(), **weights},  # lam comes from the config
                momentum=dict(momentum),
                metrics=tuple(self.metrics),
                threads=(torch.get_num_threads(),),
            )
        )

    def finish(self, split: data.Dataset, together: int) -> None:
        """Write the result."""
        network = build_network(self.config, split.image_shape, split.classes)
        threads = [torch.get_num_threads()]
        result = summarise(self.config, split, fingerprint(split), network, self.metrics, threads)
        environment = {**result.environment, "trained_together": together}
        self.folder.finish(replace(result, environment=environment))
