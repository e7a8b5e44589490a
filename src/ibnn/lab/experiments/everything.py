"""`ibnn run all`: every experiment on every dataset that is here."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from ibnn.lab import data
from ibnn.lab.experiments.experiment import Experiment, ExperimentError, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.registry import get, names

# One dataset of each group is used: the first that is here.
GROUPS = (("fashion-mnist",), ("svhn", "svhn-resplit"), ("cifar10",))
# CIFAR-10 is the expensive one: in preset cpu it has these only.
ON_CIFAR = ("learning-speed", "expressivity")


@dataclass(frozen=True)
class Job:
    """One experiment on one dataset."""

    experiment: Experiment
    settings: Settings

    @property
    def title(self) -> str:
        return f"{self.experiment.name} on {self.experiment.dataset(self.settings)}"


def jobs(
    settings: Settings, data_root: str | os.PathLike[str] | None = None
) -> tuple[list[Job], list[str]]:
    """What there is to do, and a line about everything that is left out."""
    chosen: list[Job] = []
    left_out: list[str] = []
    datasets, absent = _present(settings, data_root)
    for name in names():
        experiment = get(name)
        if not isinstance(experiment, ImageExperiment):
            own = replace(settings, dataset=None, lam=None)
            chosen.append(Job(experiment, own))
            continue
        for dataset in datasets:
            if dataset == "cifar10" and settings.preset == "cpu" and name not in ON_CIFAR:
                left_out.append(f"{name} on cifar10: too long for preset cpu")
            else:
                lam = settings.lam if experiment.takes_lam else None
                chosen.append(Job(experiment, replace(settings, dataset=dataset, lam=lam)))
    return chosen, absent + left_out


def _present(
    settings: Settings, data_root: str | os.PathLike[str] | None
) -> tuple[list[str], list[str]]:
    if settings.dataset is not None:
        return [settings.dataset], []
    if settings.preset == "smoke":
        return ["digits"], []
    here = {entry.name for entry in data.status(data_root) if entry.present}
    present: list[str] = []
    absent: list[str] = []
    for group in GROUPS:
        found = [name for name in group if name in here]
        present += found[:1]
        if not found:
            absent.append(f"{group[0]}: not here, get it with `ibnn data get {group[0]}`")
    if not present:
        raise ExperimentError(
            "no dataset of the paper is here, expected at least one (`ibnn data list`), or "
            "--dataset digits, which is built in"
        )
    return present, absent
