"""The committed CSV files, and how much was trained for each."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from ibnn.lab.experiments import Settings, get

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
    """The CSV of one experiment on one dataset, and the page that was exported with it."""

    experiment: str
    dataset: str
    rows: Sequence[Row]
    page: str
    folder: str  # below `docs/results`

    @property
    def scope(self) -> str:
        """Epochs and examples, for people: as the page's settings have them."""
        epochs = self._epochs()
        sizes = r"^- Data: .*?([\d,]+(?: to [\d,]+)?) training"
        examples = re.findall(sizes, self.page, re.MULTILINE)
        runs = re.search(r"^- Runs: (\d+) finished.* (\d+) not", self.page, re.MULTILINE)
        parts = [f"{number} epochs" for number in epochs]
        parts += [f"{number} examples" for number in examples]
        parts += [f"{runs[1]} of {int(runs[1]) + int(runs[2])} networks"] if runs else []
        return ", ".join(parts) if epochs else ""

    @property
    def is_full(self) -> bool:
        """Whether it is the published protocol, and not a reduced preset."""
        return "paper" in self._presets()

    @property
    def command(self) -> str:
        """What makes it again."""
        more = "".join(f" --preset {name}" for name in self._presets() if name != "cpu")
        for name, epochs in zip(self._presets(), self._epochs(), strict=False):
            experiment, settings = get(self.experiment), Settings(preset=name, dataset=self.dataset)
            usual = experiment.preset(settings).epochs
            more += f" --epochs {epochs}" if int(epochs) != usual else ""
            if re.search(r"^- Seeds: \d+ standard", self.page, re.MULTILINE):
                plan = experiment.plan(settings, {})
                planned = {config.seed for config in plan if config.neuron == "standard"}
                seeds = {row["seed"] for row in self.rows}
                more += f" --seeds {len(seeds)}" if len(seeds) != len(planned) else ""
        more += f" --first-seed {self.first_seed}" if self.first_seed else ""
        return f"ibnn run {self.experiment} --dataset {self.dataset}{more}"

    @property
    def first_seed(self) -> int:
        """Above 0 where it is about fresh networks."""
        found = re.search(r"-from-seed-(\d+)$", self.folder)
        return int(found[1]) if found else 0

    def _epochs(self) -> list[str]:
        found = re.findall(r"^- (?:[^:\n]+: )?Training: (\d+) epochs", self.page, re.MULTILINE)
        return list(dict.fromkeys(found))

    def _presets(self) -> list[str]:
        return re.findall(r"^- Preset: (\w+)", self.page, re.MULTILINE)


class Sources:
    """Everything below `docs/results`.

    Beside the folder of an experiment and a dataset there may be others: one with fresh networks
    that are judged by themselves ends in `-from-seed-5`, one with smaller runs, of which the larger
    ones do not have everything, in `-reduced`.
    """

    def __init__(self, results: Path):
        self._found: dict[tuple[str, str], list[Source]] = {}
        for dataset in (*DATASETS, "arrows", "digits", "kjv"):
            for end in (dataset, f"{dataset}-from-seed-*", f"{dataset}-reduced"):
                for file in sorted(results.glob(f"*-{end}/*.csv")):
                    if fnmatch(file.parent.name, f"{file.stem}-{end}"):
                        self._found.setdefault((file.stem, dataset), []).append(
                            _read(file, dataset)
                        )

    def each(self, experiment: str, dataset: str) -> list[Source]:
        """The files of an experiment on a dataset, that of the largest runs first."""
        return self._found.get((experiment, dataset), [])

    def get(self, experiment: str, dataset: str) -> Source | None:
        """The first of them; None where the experiment has not been run on the dataset."""
        return next(iter(self.each(experiment, dataset)), None)

    def all(self) -> list[Source]:
        """Every file there is."""
        return [source for key in sorted(self._found) for source in self._found[key]]


def _read(file: Path, dataset: str) -> Source:
    renamed = _RENAMED.get(file.stem, {})
    with file.open(newline="") as lines:
        rows = [
            {renamed.get(name, name): value for name, value in row.items()}
            for row in csv.DictReader(lines)
        ]
    page = file.parent / "README.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return Source(file.stem, dataset, rows, text, file.parent.name)
