"""`ibnn run all`: every experiment on every available dataset."""

from dataclasses import dataclass, replace

from ibnn.lab import data
from ibnn.lab.experiments.experiment import Experiment, ExperimentError, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.registry import get, names
from ibnn.lab.files import StrPath


@dataclass(frozen=True)
class Job:
    """One experiment on one dataset."""

    experiment: Experiment
    settings: Settings

    @property
    def title(self) -> str:
        return f"{self.experiment.name} on {self.experiment.dataset(self.settings)}"


def jobs(settings: Settings, data_root: StrPath | None = None) -> tuple[list[Job], list[str]]:
    """What there is to do, and a line about everything that is left out."""
    chosen: list[Job] = []
    datasets, left_out = _present(settings, data_root)
    for name in names():
        experiment = get(name)
        if not isinstance(experiment, ImageExperiment):
            own = replace(settings, dataset=None, channels=None, lam=None)
            if not experiment.takes_seeds:
                own = replace(own, seeds=None, first_seed=0)
            job = Job(experiment, own)
            reason = _reason(job, data_root)
            if reason is None:
                chosen.append(job)
            else:
                left_out.append(f"{name}: {reason}")
            continue
        lam = settings.lam if experiment.takes_lam else None
        channels = settings.channels if experiment.takes_channels else None
        for dataset in datasets:
            small = settings.preset == "cpu" and not experiment.cheap
            if small and data.defaults(dataset, root=data_root).expensive:
                left_out.append(f"{name} on {dataset}: too long for preset cpu")
            else:
                own = replace(settings, dataset=dataset, channels=channels, lam=lam)
                chosen.append(Job(experiment, own))
    return chosen, left_out


def _reason(job: Job, data_root: StrPath | None) -> str | None:
    """Why an experiment with a dataset of its own is left out; None if it is not."""
    dataset, present = job.experiment.dataset(job.settings), data.status(data_root)
    if any(entry.name == dataset and not entry.present for entry in present):
        return f"{dataset} is not downloaded"
    small = job.settings.preset == "cpu" and not job.experiment.cheap
    return "too long for preset cpu" if small and data.defaults(dataset).expensive else None


def _present(settings: Settings, data_root: StrPath | None) -> tuple[list[str], list[str]]:
    """The datasets to use, of each group the first that is here, and lines about the others."""
    if settings.dataset is not None:
        return [settings.dataset], []
    if settings.preset == "smoke" and ImageExperiment.smoke_dataset:
        return [ImageExperiment.smoke_dataset], []
    here = {entry.name for entry in data.status(data_root) if entry.present}
    present: list[str] = []
    absent: list[str] = []
    groups = data.groups().values()
    for group in sorted(groups, key=lambda names: data.defaults(names[0]).expensive):
        found = [name for name in group if name in here]
        present += found[:1]
        if not found:
            absent.append(f"{group[0]}: not downloaded; `ibnn data get {group[0]}` does it")
    if not present:
        raise ExperimentError(
            "no dataset of the paper is downloaded, expected at least one (`ibnn data list`), or "
            "--dataset digits, which is built in"
        )
    return present, absent
