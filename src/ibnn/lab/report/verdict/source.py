"""The committed CSV files, and how much was trained for each."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Row = Mapping[str, str]

# columns of older files -> today's names
_RENAMED = {"data-fraction": {"share": "fraction"}, "transfer": {"attacked": "robust_accuracy"}}
DATASETS = ("fashion-mnist", "svhn-resplit", "cifar10")


@dataclass(frozen=True)
class Source:
    """The CSV of one experiment on one dataset."""

    experiment: str
    dataset: str
    rows: Sequence[Row]
    scope: str  # epochs and images, for people

    @property
    def folder(self) -> str:
        """Its folder below `docs/results`."""
        return f"{self.experiment}-{self.dataset}"


class Sources:
    """Everything below `docs/results`."""

    def __init__(self, results: Path):
        self._files: dict[tuple[str, str], list[Row]] = {}
        for dataset in (*DATASETS, "arrows"):
            for file in sorted(results.glob(f"*-{dataset}/*.csv")):
                if file.parent.name == f"{file.stem}-{dataset}":
                    renamed = _RENAMED.get(file.stem, {})
                    with file.open(newline="") as lines:
                        self._files[file.stem, dataset] = [
                            {renamed.get(name, name): value for name, value in row.items()}
                            for row in csv.DictReader(lines)
                        ]
        self._trained = _trained(self._files.values())

    def get(self, experiment: str, dataset: str) -> Source | None:
        """One file; None where the experiment has not been run on the dataset."""
        rows = self._files.get((experiment, dataset))
        if rows is None:
            return None
        return Source(experiment, dataset, rows, self._scope(rows))

    def all(self) -> list[Source]:
        """Every file there is."""
        names = sorted(self._files, key=lambda key: (key[0], key[1]))
        return [Source(e, d, self._files[e, d], self._scope(self._files[e, d])) for e, d in names]

    def _scope(self, rows: Sequence[Row]) -> str:
        """From the rows themselves, or from another file that lists the same runs."""
        known = [self._trained[row["run"]] for row in rows if row.get("run") in self._trained]
        epochs = [int(row["epoch"]) for row in rows if row.get("epoch", "").isdigit()]
        parts = []
        if epochs or known:
            parts.append(f"{max([*epochs, *(k[0] for k in known)])} epochs")
        if known:
            parts.append(f"{max(k[1] for k in known):,} images")
        return ", ".join(parts)


def _trained(files: Iterable[Sequence[Row]]) -> dict[str, tuple[int, int]]:
    """Epochs and training images by run, where a file has both."""
    return {
        row["run"]: (int(row["epochs"]), int(row["n_train"]))
        for rows in files
        for row in rows
        if row.get("epochs") and row.get("n_train")
    }
