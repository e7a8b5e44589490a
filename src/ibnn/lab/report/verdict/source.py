"""The committed CSV files, and how much was trained for each."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ibnn.lab.report.entry import Entry, read_entries

Row = Mapping[str, str]

# columns of older files -> today's names
_RENAMED = {"data-fraction": {"share": "fraction"}, "transfer": {"attacked": "robust_accuracy"}}
DATASETS = ("fashion-mnist", "svhn-resplit", "cifar10")
NAMES = {  # for people
    "fashion-mnist": "Fashion-MNIST",
    "svhn-resplit": "SVHN re-split",
    "cifar10": "CIFAR-10",
    "digits": "digits",
}


@dataclass(frozen=True)
class Source:
    """An exported report, and the rows of its CSV."""

    entry: Entry
    rows: Sequence[Row]

    @property
    def experiment(self) -> str:
        return self.entry.findings["experiment"]

    @property
    def dataset(self) -> str:
        return self.entry.findings["dataset"]

    @property
    def scope(self) -> str:
        """Epochs, examples and networks, for people."""
        if not self.entry.epochs:
            return ""
        epochs = [f"{number} epochs" for number in self.entry.epochs.split(", ")]
        return ", ".join((*epochs, f"{self.entry.examples} examples", self.networks))

    @property
    def networks(self) -> str:
        """How many there are, and of how many where some are missing, for people."""
        trained, missing = self.entry.findings["runs"], self.entry.findings["missing"]
        return f"{trained} of {trained + missing} networks" if missing else f"{trained} networks"


class Sources:
    """Everything below `docs/results`, but for reports in which lam was not learnt."""

    def __init__(self, results: Path):
        self._found: dict[tuple[str, str], list[Source]] = {}
        entries, _ = read_entries(results)
        # what was trained most comes first, fresh networks after the first ones
        for entry in sorted(entries, key=lambda entry: (-entry.completeness, entry.first_seed)):
            if not entry.findings["lam"]:
                source = Source(entry, _rows(results, entry))
                self._found.setdefault((source.experiment, source.dataset), []).append(source)

    def each(self, experiment: str, dataset: str) -> list[Source]:
        """The files of an experiment on a dataset, that of the largest runs first."""
        return self._found.get((experiment, dataset), [])

    def get(self, experiment: str, dataset: str) -> Source | None:
        """The first of them; None where the experiment has not been run on the dataset."""
        return next(iter(self.each(experiment, dataset)), None)

    def all(self) -> list[Source]:
        """Every file there is."""
        return [source for key in sorted(self._found) for source in self._found[key]]


def _rows(results: Path, entry: Entry) -> list[Row]:
    experiment = entry.findings["experiment"]
    renamed = _RENAMED.get(experiment, {})
    with (results / entry.folder / f"{experiment}.csv").open(newline="") as lines:
        return [
            {renamed.get(name, name): value for name, value in row.items()}
            for row in csv.DictReader(lines)
        ]
