"""Runs of an experiment with invented numbers: nothing is trained, everything else is as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from torch import nn

from ibnn.lab import data
from ibnn.lab.experiments import Experiment, Run, Settings
from ibnn.lab.models import network_kind
from ibnn.lab.training import Metrics, Result, RunConfig, build_network

Numbers = Callable[[RunConfig], Any]
CLASSES = 10


@dataclass(frozen=True)
class InventedRun(Run):
    """A run that was never trained: its network has its first weights."""

    curve: tuple[float, ...] = ()

    def network(self) -> nn.Module:
        plane = not network_kind(self.config.network).images
        return build_network(self.config, _shape(self.config), 2 if plane else CLASSES).eval()

    def validations(self) -> list[Metrics]:
        return [
            Metrics(
                stage="training",
                epoch=epoch,
                epochs=len(self.curve),
                accuracy=accuracy,
                loss=1.0,
                train_accuracy=accuracy,
                train_loss=1.0,
                learning_rate=0.01,
                lam=self.result.lam,
                slope=self.result.slope,
                steps=None,
                residual=None,
                converged=None,
                seconds=1.0,
                images_per_second=1.0,
            )
            for epoch, accuracy in enumerate(self.curve, 1)
        ]


def invent(
    experiment: Experiment, settings: Settings, accuracy: Numbers, measured: Numbers
) -> list[Run]:
    """Every run the experiment wants, later stages too, with these accuracies and measurements.

    The accuracy of an epoch rises to that of the run: half of what is missing, each epoch.
    """
    runs: dict[str, Run] = {}
    while True:
        known = experiment.plan(settings, {name: run.result for name, run in runs.items()})
        new = {config.identity(): config for config in known if config.identity() not in runs}
        if not new:
            return list(runs.values())
        for name, config in new.items():
            runs[name] = _run(config, accuracy(config), measured(config))


def _run(config: RunConfig, accuracy: float, measured: dict[str, Any]) -> InventedRun:
    curve = tuple(accuracy * (1 - 0.5**epoch) for epoch in range(1, config.epochs + 1))
    layers = network_kind(config.network).hidden_layers(config)
    implicit = config.neuron != "standard"
    result = Result(
        identity=config.identity(),
        title=config.title(),
        best_accuracy=accuracy,
        best_epoch=config.epochs,
        accuracy=accuracy,
        loss=1.0,
        train_accuracy=accuracy,
        train_loss=1.0,
        epochs=config.epochs,
        lam=[0.05] * layers if implicit else [],
        slope=[config.slope] * layers if implicit else [],
        parameters=1000 * config.channels,
        n_train=1000,
        n_test=100,
        data="",
        seconds=1.0,
        environment={},
    )
    folder: Any = SimpleNamespace(latest=lambda: SimpleNamespace(image_shape=_shape(config)))
    return InventedRun(config, result, folder, measured, curve=curve)


def _shape(config: RunConfig) -> tuple[int, ...]:
    shape = data.defaults(config.dataset).image_shape
    assert shape is not None
    return shape
