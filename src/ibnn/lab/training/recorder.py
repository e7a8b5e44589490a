"""A run while it is trained: what it has measured, its checkpoints, its listeners."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ibnn.lab.data import Dataset
from ibnn.lab.training.checkpoint import Checkpoint
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.device import describe
from ibnn.lab.training.epochs import Epoch
from ibnn.lab.training.errors import CheckpointError
from ibnn.lab.training.folder import RunFolder
from ibnn.lab.training.listeners import Listener
from ibnn.lab.training.result import Metrics, Result, summarize


class Recorder:
    """Holds the run's folder for the time of a `with` block (its lock must be held).

    Args:
        split: the examples the run trains and validates on.
        examples: their checksum, see `fingerprint`.
        device: where the network is trained.
        checkpoint_seconds: the least time between two checkpoints.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        split: Dataset,
        examples: str,
        *,
        device: torch.device | str = "cpu",
        listeners: Iterable[Listener] = (),
        checkpoint_seconds: float = 1.0,
    ):
        self.config = config
        self.folder = folder
        self.split = split
        self.examples = examples
        self.device = torch.device(device)
        self.latest = folder.begin(config)
        if self.latest is not None and self.latest.data != examples:
            raise CheckpointError(
                f"run {folder.identity} was started on other data than {config.dataset} is now; "
                f"delete {folder.path} to train it again"
            )
        self.first = self.latest.epochs_done if self.latest else 0
        self.metrics = list(self.latest.metrics) if self.latest else []
        before = (self.latest.threads, self.latest.devices) if self.latest else ((), ())
        self.threads = sorted({torch.get_num_threads(), *before[0]})
        self.devices = list(dict.fromkeys([*before[1], describe(self.device)]))
        self._listeners = list(listeners)
        self._checkpoint_seconds = checkpoint_seconds
        self._due = time.monotonic() + checkpoint_seconds

    def __enter__(self) -> Recorder:
        with ExitStack() as opened:
            opened.callback(self._close)
            for listener in self._listeners:
                listener.on_start(self.config, self.folder.path, self.first)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _close(self) -> None:
        for listener in self._listeners:
            listener.close()

    def save(
        self,
        epoch: Epoch,
        weights: Mapping[str, Tensor],
        momentum: Mapping[str, Tensor],
        neuron: str,
    ) -> None:
        """Write the checkpoint after an epoch; `neuron` is that of the network."""
        self.folder.save(
            Checkpoint(
                identity=self.folder.identity,
                image_shape=self.split.image_shape,
                classes=self.split.classes,
                data=self.examples,
                epochs_done=epoch.index + 1,
                neuron=neuron,
                weights=dict(weights),
                momentum=dict(momentum),
                metrics=tuple(self.metrics),
                threads=tuple(self.threads),
                devices=tuple(self.devices),
            )
        )
        self._due = time.monotonic() + self._checkpoint_seconds

    def due(self, epoch: Epoch) -> bool:
        """Whether a checkpoint should follow this epoch: the last one always has one."""
        return epoch.last or time.monotonic() >= self._due

    def add(self, line: Metrics) -> None:
        """Keep what a validation measured, for the next checkpoint."""
        self.metrics.append(line)

    def publish(self) -> None:
        """Tell the newest line, after its checkpoint: after a kill it is made again from that."""
        line = self.metrics[-1]
        with self.folder.metrics_file.open("a") as file:
            file.write(line.to_line() + "\n")
        for listener in self._listeners:
            listener.on_epoch(line)

    def finish(self, network: nn.Module, **environment: Any) -> Result:
        result = summarize(self.config, self.split, self.examples, network, self.metrics)
        about = {
            **result.environment,
            "threads_used": self.threads,
            "device": describe(self.device),
            "devices_used": self.devices,
            **environment,
        }
        result = replace(result, environment=about)
        self.folder.finish(result)
        for listener in self._listeners:
            listener.on_finish(result)
        return result
