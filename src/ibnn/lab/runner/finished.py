"""A finished run, as whoever makes something of it sees it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ibnn.lab.data import Dataset
from ibnn.lab.files import StrPath
from ibnn.lab.training import Metrics, Result, RunConfig, RunFolder, examples


@dataclass(frozen=True)
class Run:
    """A finished run, with what an experiment measured on it."""

    config: RunConfig
    result: Result
    folder: RunFolder
    measured: Mapping[str, Any]
    data_root: StrPath | None = None  # where its dataset is

    def examples(self) -> Dataset:
        """The examples it was trained and validated on."""
        return examples(self.config, self.data_root)

    def network(self) -> nn.Module:
        return self.folder.network()

    def validations(self) -> list[Metrics]:
        """What was measured after every epoch that is not of the warm-up."""
        return [line for line in self.folder.metrics() if line.stage == "training"]
